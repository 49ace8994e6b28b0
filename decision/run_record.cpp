// run_record.cpp - see run_record.h. What was not measured, or does not exist here, is null.
#include "decision/run_record.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "decision/provenance.h"
#include "decision/rules.h"

namespace spillway::decision {
namespace {
using Json = nlohmann::ordered_json;

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

}  // namespace

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json bytes_or_null(const std::optional<double>& mebibytes) {
  // Somebody's cap may be any number; bytes that no integer holds exactly are not written as one.
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const double bytes = mebibytes.value_or(kExact) * 1024.0 * 1024.0;
  return std::abs(bytes) < kExact ? Json(std::llround(bytes)) : Json(nullptr);
}

Run describe(Workload& workload, const DeviceInfo& device) {
  return {workload.options(), workload.config().name, workload.tokens().description(), device};
}

const char* evidence_level(const DeviceInfo& device) {
  return device.is_host ? "host" : "single_gpu";
}

Json run_config(const Run& run, const std::string& command_line) {
  const WorkloadOptions& w = run.workload;
  const bool host = run.device.is_host;
  Json c;
  c["model_id"] = run.model;
  c["workload"] = w.seq == kSmokeSeq ? "smoke" : w.seq == kPressureSeq ? "pressure" : "custom";
  c["batch_size"] = w.batch;
  c["seq_len"] = w.seq;
  c["amp_dtype"] = w.dtype;
  c["optimizer"] = {{"name", "AdamW"},        {"lr", w.adamw.lr},   {"beta1", w.adamw.beta1},
                    {"beta2", w.adamw.beta2}, {"eps", w.adamw.eps}, {"weight_decay", w.adamw.weight_decay}};
  c["tokens"] = run.tokens;
  c["seed"] = w.seed;
  c["torch"] = nullptr;
  c["torch_cuda"] = host ? Json(nullptr) : Json(cuda_version(run.device.runtime_version));
  c["driver"] = host ? Json(nullptr) : text_or_null(driver_version());
  c["driver_cuda"] = host ? Json(nullptr) : Json(cuda_version(run.device.driver_version));  // the newest it supports
  c["device"] = run.device.name;
  c["processor"] = text_or_null(processor_name());
  c["device_memory_bytes"] = run.device.memory_bytes;
  c["git_commit"] = text_or_null(git_commit());
  c["command"] = command_line;
  return c;
}

void add_steps(Json& config, const Steps& steps) {
  config["warmup"] = steps.warmup;
  config["iters"] = steps.iters;
  config["repeats"] = steps.repeats;
}

Json measured_fields(const Measurement& m, const char* peak_name, const Steps& steps) {
  const std::string peak = peak_name;
  Json c;
  c["status"] = m.status;
  c["strategy"] = m.strategy;
  c["repeats_requested"] = steps.repeats;
  if (m.status != "ok") {
    c["error"] = m.error;
    return c;
  }
  c["repeats_measured"] = m.samples.back().repeat + 1;
  c["step_time_ms"] = median_step_ms(m);
  c["samples_per_s"] = samples_per_s(m);
  c["loss"] = m.samples.back().loss;
  c["eval_loss"] = *m.eval_loss;
  c[peak + "_mb"] = mib(m.peak_bytes);
  c[peak + "_bytes"] = m.peak_bytes;
  c["peak_reserved_mb"] = mib(m.peak_reserved_bytes);
  c["peak_reserved_bytes"] = m.peak_reserved_bytes;
  c["peak_activation_mb"] = mib(m.peak_activation_bytes);
  c["peak_activation_bytes"] = m.peak_activation_bytes;
  Json at_peak;
  for (std::size_t i = 0; i < memory::kCategories; ++i)
    at_peak[std::string(memory::kCategoryNames[i]) + "_bytes"] = m.at_peak[i];
  c["at_peak"] = at_peak;
  c["lmhead_chunk"] = m.lmhead_chunk;
  c["cost"] = cost(m);
  c["spread"] = number_or_null(spread(m));
  c["noisy"] = spread(m) ? Json(noisy(m)) : Json(nullptr);
  c["losses_agree"] = m.losses_agree;
  c["peaks_agree"] = m.peaks_agree;
  Json samples = Json::array();
  for (const Sample& s : m.samples)
    samples.push_back({{"repeat", s.repeat + 1}, {"step_time_ms", s.step_time_ms}, {"loss", s.loss}});
  c["samples"] = samples;
  return c;
}

}  // namespace spillway::decision
