// benchmark_record.cpp - experiment 76 as a file: the raw record of PROTOCOL.md, field for field, and beside it what we
// add (exact bytes, every sample, the categories at the peak). What was not measured is null.
#include <nlohmann/json.hpp>

#include "decision/run_record.h"
#include "decision/strategy_benchmark.h"

namespace spillway::decision {
using Json = nlohmann::ordered_json;

nlohmann::ordered_json benchmark_record(const Benchmark& b, const std::string& command) {
  Json r;
  r["task"] = "task3_training_memory_optimization";
  r["stage"] = "activation_checkpoint_offload_benchmark";
  r["next_stage"] = "memory_budget_decision";
  r["evidence_level"] = evidence_level(b.run.device);
  r["source_baseline"] = text_or_null(b.options.source_baseline);
  Json config = run_config(b.run, command);
  add_steps(config, b.options.steps);
  config["strategies"] = b.options.strategies;
  r["config"] = config;
  r["budget"] = {{"memory_cap_mb", number_or_null(b.budget.memory_cap_mb)},
                 {"memory_cap_bytes", bytes_or_null(b.budget.memory_cap_mb)},
                 {"min_samples_per_s", number_or_null(b.budget.min_samples_per_s)}};
  r["quality_floor"] = {{"max_val_loss", number_or_null(b.budget.max_val_loss)}};
  r["thresholds"] = {{"saving_mb", b.options.thresholds.saving_mb},
                     {"saving_bytes", bytes_or_null(b.options.thresholds.saving_mb)},
                     {"throughput_ratio", b.options.thresholds.throughput_ratio},
                     {"noisy_spread", kNoisySpread}};
  Json list = Json::array();
  for (const Measurement& m : b.measurements) {
    Json c = {{"name", m.name}};
    c.update(measured_fields(m, "peak_memory", b.options.steps));
    list.push_back(c);
  }
  r["candidates"] = list;
  r["losses_identical"] = b.losses_identical;
  const Summary& s = b.summary;
  r["summary"] = {{"candidate_count", s.candidate_count},
                  {"measured_count", s.measured_count},
                  {"oom_count", s.oom_count},
                  {"invalid_count", s.invalid_count},
                  {"quality_failed_count", s.quality_failed_count},
                  {"feasible_names", s.feasible_names},
                  {"best_candidate", text_or_null(s.best_candidate.value_or(""))},
                  {"baseline_peak_memory_mb", number_or_null(s.baseline_peak_memory_mb)},
                  {"baseline_peak_memory_bytes", bytes_or_null(s.baseline_peak_memory_mb)},
                  {"best_peak_memory_mb", number_or_null(s.best_peak_memory_mb)},
                  {"best_peak_memory_bytes", bytes_or_null(s.best_peak_memory_mb)},
                  {"memory_saving_mb", s.memory_saving_mb},
                  {"memory_saving_bytes", bytes_or_null(s.memory_saving_mb)},
                  {"throughput_ratio", number_or_null(s.throughput_ratio)}};
  r["decision"] = {
      {"decision", b.decision.decision}, {"reason", b.decision.reason}, {"next_action", b.decision.next_action}};
  return r;
}

}  // namespace spillway::decision
