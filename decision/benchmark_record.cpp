// benchmark_record.cpp - experiment 76 as a file: the raw record of PROTOCOL.md, field for field, and beside it what we
// add (exact bytes, every sample, the categories at the peak). What was not measured is null.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "decision/provenance.h"
#include "decision/strategy_benchmark.h"

namespace spillway::decision {
namespace {
using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// The exact integer beside a figure in MiB. Exact: MiB of whole bytes are doubles without rounding up to 2^53 bytes.
Json bytes_or_null(const std::optional<double>& mebibytes) {
  return mebibytes ? Json(std::llround(*mebibytes * 1024.0 * 1024.0)) : Json(nullptr);
}

Json cost(const Measurement& m) {
  using Cost = activation::StepCost;
  Json c;
  c["recompute_ms"] = m.recomputes ? Json(median_ms(m, &Cost::recompute_ms)) : Json(nullptr);
  c["recompute_flops"] = m.recomputes ? Json(m.costs.back().recompute_flops) : Json(nullptr);
  c["offload_bytes"] = m.offloads ? Json(m.costs.back().offload_bytes) : Json(nullptr);
  c["prefetch_bytes"] = m.offloads ? Json(m.costs.back().prefetch_bytes) : Json(nullptr);
  c["transfer_ms"] = m.offloads ? Json(median_ms(m, &Cost::transfer_ms)) : Json(nullptr);
  c["exposed_transfer_ms"] = m.offloads && !m.pageable ? Json(median_ms(m, &Cost::exposed_transfer_ms)) : Json(nullptr);
  c["pinned_host_bytes"] = m.offloads ? Json(m.pinned_host_bytes) : Json(nullptr);
  c["allocator_retries"] = m.allocator_retries;
  return c;
}

Json candidate(const Measurement& m, const Candidate& rules, int repeats) {
  Json c;
  c["name"] = m.strategy;
  c["status"] = m.status;
  if (m.status != "ok") {
    c["error"] = m.error;
    return c;
  }
  Json samples = Json::array();
  for (const Sample& s : m.samples) {
    samples.push_back({{"repeat", s.repeat + 1}, {"step_time_ms", s.step_time_ms}, {"loss", s.loss}});
  }
  c["step_time_ms"] = median(step_times(m));
  c["samples_per_s"] = or_null(rules.samples_per_s);
  c["loss"] = m.samples.back().loss;
  c["eval_loss"] = or_null(m.eval_loss);
  c["peak_memory_mb"] = mib(m.peak_bytes);
  c["peak_memory_bytes"] = m.peak_bytes;
  c["peak_reserved_mb"] = mib(m.peak_reserved_bytes);
  c["peak_reserved_bytes"] = m.peak_reserved_bytes;
  c["peak_activation_mb"] = mib(m.peak_activation_bytes);
  c["peak_activation_bytes"] = m.peak_activation_bytes;
  Json at_peak;
  for (std::size_t i = 0; i < memory::kCategories; ++i)
    at_peak[std::string(memory::kCategoryNames[i]) + "_bytes"] = m.at_peak[i];
  c["at_peak"] = at_peak;
  c["cost"] = cost(m);
  c["spread"] = spread(m);
  c["noisy"] = spread(m) > kNoisySpread;
  c["repeats_requested"] = repeats;
  c["repeats_measured"] = m.samples.back().repeat + 1;
  c["losses_agree"] = m.losses_agree;
  c["peaks_agree"] = m.peaks_agree;
  c["samples"] = samples;
  return c;
}

Json config(const Benchmark& b, const std::string& command) {
  const BenchmarkOptions& o = b.options;
  const WorkloadOptions& w = o.workload;
  const bool host = b.device.is_host;
  Json c;
  c["model_id"] = b.model;
  c["workload"] = w.seq == 512 ? "smoke" : w.seq == 768 ? "pressure" : "custom";
  c["batch_size"] = w.batch;
  c["seq_len"] = w.seq;
  c["warmup"] = o.warmup;
  c["iters"] = o.iters;
  c["repeats"] = o.repeats;
  c["amp_dtype"] = w.dtype;
  c["optimizer"] = {{"name", "AdamW"},        {"lr", w.adamw.lr},   {"beta1", w.adamw.beta1},
                    {"beta2", w.adamw.beta2}, {"eps", w.adamw.eps}, {"weight_decay", w.adamw.weight_decay}};
  std::int64_t chunk = 0;
  for (const Measurement& m : b.measurements) chunk = std::max(chunk, m.lmhead_chunk);
  c["lmhead_chunk"] = chunk > 0 ? Json(chunk) : Json(nullptr);
  c["tokens"] = b.tokens;
  c["seed"] = w.seed;
  c["strategies"] = o.strategies;
  c["torch"] = nullptr;
  c["torch_cuda"] = host ? Json(nullptr) : Json(cuda_version(b.device.runtime_version));
  c["driver"] = host ? Json(nullptr) : or_null(driver_version());
  c["driver_cuda"] = host ? Json(nullptr) : Json(cuda_version(b.device.driver_version));  // the newest it supports
  c["device"] = b.device.name;
  c["processor"] = or_null(processor_name());
  c["device_memory_bytes"] = b.device.memory_bytes;
  c["git_commit"] = or_null(git_commit());
  c["command"] = command;
  return c;
}

}  // namespace

nlohmann::ordered_json benchmark_record(const Benchmark& b, const std::string& command) {
  Json r;
  r["task"] = "task3_training_memory_optimization";
  r["stage"] = "activation_checkpoint_offload_benchmark";
  r["evidence_level"] = b.device.is_host ? "host" : "single_gpu";
  r["source_baseline"] = nullptr;
  r["config"] = config(b, command);
  r["budget"] = {{"memory_cap_mb", or_null(b.budget.memory_cap_mb)},
                 {"memory_cap_bytes", bytes_or_null(b.budget.memory_cap_mb)},
                 {"min_samples_per_s", or_null(b.budget.min_samples_per_s)}};
  r["quality_floor"] = {{"max_val_loss", or_null(b.budget.max_val_loss)}};
  r["thresholds"] = {{"saving_mb", b.options.thresholds.saving_mb},
                     {"saving_bytes", bytes_or_null(b.options.thresholds.saving_mb)},
                     {"throughput_ratio", b.options.thresholds.throughput_ratio},
                     {"noisy_spread", kNoisySpread}};
  const auto rules = candidates(b.measurements, b.options.workload.batch);
  Json list = Json::array();
  for (std::size_t i = 0; i < rules.size(); ++i)
    list.push_back(candidate(b.measurements[i], rules[i], b.options.repeats));
  r["candidates"] = list;
  r["losses_identical"] = b.losses_identical;
  const Summary& s = b.summary;
  r["summary"] = {{"candidate_count", s.candidate_count},
                  {"measured_count", s.measured_count},
                  {"oom_count", s.oom_count},
                  {"invalid_count", s.invalid_count},
                  {"quality_failed_count", s.quality_failed_count},
                  {"feasible_names", s.feasible_names},
                  {"best_candidate", or_null(s.best_candidate)},
                  {"baseline_peak_memory_mb", or_null(s.baseline_peak_memory_mb)},
                  {"baseline_peak_memory_bytes", bytes_or_null(s.baseline_peak_memory_mb)},
                  {"best_peak_memory_mb", or_null(s.best_peak_memory_mb)},
                  {"best_peak_memory_bytes", bytes_or_null(s.best_peak_memory_mb)},
                  {"memory_saving_mb", s.memory_saving_mb},
                  {"memory_saving_bytes", bytes_or_null(s.memory_saving_mb)},
                  {"throughput_ratio", or_null(s.throughput_ratio)}};
  r["decision"] = {
      {"decision", b.decision.decision}, {"reason", b.decision.reason}, {"next_action", b.decision.next_action}};
  return r;
}

}  // namespace spillway::decision
