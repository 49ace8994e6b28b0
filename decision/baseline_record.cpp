// baseline_record.cpp - experiment 73 as a file and for people.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "decision/table.h"
#include "decision/training_baseline.h"

namespace spillway::decision {
namespace {
using Json = nlohmann::ordered_json;

// The tuned arm's dtype is the run's: it is what "mixed precision" is about. Other variables leave both arms alike.
std::string run_dtype(const TrainingBaseline& r) {
  return r.variation.tuned.workload.dtype;
}

Json arm(const Measurement& m, const Arm& of, const Steps& steps) {
  Json a = measured_fields(m, "peak_mem", steps);
  a["dtype"] = of.workload.dtype;
  a["batch_size"] = of.workload.batch;
  return a;
}

Json loss_delta(const TrainingBaseline& r) {
  if (!r.summary) return nullptr;
  return static_cast<double>(r.tuned.samples.back().loss) - static_cast<double>(r.baseline.samples.back().loss);
}

}  // namespace

Json baseline_summary_json(const BaselineSummary& s) {
  return {{"step_time_delta_ms", s.step_time_delta_ms},
          {"peak_mem_delta_mb", s.peak_mem_delta_mb},
          {"peak_mem_delta_bytes", bytes_or_null(s.peak_mem_delta_exact_mb)},
          {"time_improved", s.time_improved},
          {"memory_improved", s.memory_improved},
          {"time_improvement_pct", s.time_improvement_pct},
          {"memory_improvement_pct", s.memory_improvement_pct},
          {"meaningful_memory_improved", s.meaningful_memory_improved}};
}

nlohmann::ordered_json baseline_record(const TrainingBaseline& r, const std::string& command) {
  Json j;
  j["task"] = "task3_training_memory_optimization";
  j["stage"] = "measurement_baseline";
  j["next_stage"] = "activation_checkpoint_offload_benchmark";
  j["evidence_level"] = evidence_level(r.run.device);
  Json config = run_config(r.run, command);
  config["amp_dtype"] = run_dtype(r);
  add_steps(config, r.options.steps);
  config["varied"] = r.variation.variable;
  config["varied_values"] = {{"baseline", r.variation.baseline_value}, {"tuned", r.variation.tuned_value}};
  j["config"] = config;
  j["thresholds"] = {{"step_time_delta_ms", kMeaningfulTimeMs},
                     {"peak_mem_delta_mb", kMeaningfulMemoryMb},
                     {"peak_mem_delta_bytes", bytes_or_null(kMeaningfulMemoryMb)},
                     {"eval_loss_ratio", kQualityMargin},
                     {"noisy_spread", kNoisySpread}};
  j["baseline"] = arm(r.baseline, r.variation.baseline, r.options.steps);
  j["tuned"] = arm(r.tuned, r.variation.tuned, r.options.steps);
  j["summary"] = r.summary ? baseline_summary_json(*r.summary) : Json(nullptr);
  j["loss_delta_tuned_minus_baseline"] = loss_delta(r);
  j["decision"] = {{"decision", r.decision.decision}, {"reason", r.decision.reason}};
  return j;
}

std::string baseline_report(const TrainingBaseline& r) {
  Table t(
      {"arm", r.variation.variable, "step ms", "spread", "samples/s", "peak MiB", "reserved MiB", "loss", "eval loss"});
  for (const auto& [m, value] :
       {std::pair(&r.baseline, r.variation.baseline_value), std::pair(&r.tuned, r.variation.tuned_value)}) {
    if (m->status != "ok") {
      t.row({m->name, value, m->status, "", "", "", "", "", ""});
      continue;
    }
    t.row({m->name, value, fmt::format("{:.1f}", median_step_ms(*m)), spread_text(*m),
           fmt::format("{:.3f}", samples_per_s(*m)), fmt::format("{:.1f}", mib(m->peak_bytes)),
           fmt::format("{:.1f}", mib(m->peak_reserved_bytes)), fmt::format("{:.6f}", m->samples.back().loss),
           fmt::format("{:.6f}", *m->eval_loss)});
  }
  std::string text = t.text();
  for (const Measurement* m : {&r.baseline, &r.tuned})
    if (m->status != "ok") text += fmt::format("{}: {}: {}\n", m->name, m->status, m->error);
  if (r.summary) {
    const BaselineSummary& s = *r.summary;
    text += fmt::format("tuned saves {:.1f} ms a step ({:.1f}%) and {:.1f} MiB ({:.1f}%)\n", s.step_time_delta_ms,
                        s.time_improvement_pct, s.peak_mem_delta_mb, s.memory_improvement_pct);
    text += fmt::format("repeats agree: losses {}, peaks {}\n",
                        r.baseline.losses_agree && r.tuned.losses_agree ? "bit for bit" : "NO",
                        r.baseline.peaks_agree && r.tuned.peaks_agree ? "to the byte" : "NO");
  }
  text += fmt::format("decision: {} ({}); accept takes {:.0f} ms and {:.0f} MiB at an evaluation loss within {:.0f}%\n",
                      r.decision.decision, r.decision.reason, kMeaningfulTimeMs, kMeaningfulMemoryMb,
                      100 * (kQualityMargin - 1));
  return text;
}

}  // namespace spillway::decision
