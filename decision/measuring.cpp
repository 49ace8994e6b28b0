// measuring.cpp - see measuring.h.
#include "decision/measuring.h"

#include <fmt/format.h>

#include <cstdio>

#include "decision/record.h"

namespace spillway::decision {

RecordNames record_names(const DeviceInfo& device) {
  const bool host = device.is_host;
  return {host ? "73_host_training.json" : "73_real_gpu_training.json",
          host ? "76_host_memory.json" : "76_real_gpu_memory.json",
          host ? "76_host_oom_boundary.json" : "76_real_gpu_oom_boundary.json", "75_memory_budget_decision.json",
          "74_profiling_optimization.json"};
}

std::string run_name(const RunPlace& place, const DeviceInfo& device, const Workload& workload) {
  if (!place.run.empty()) return place.run;
  return default_run_name(place.results, device.is_host, workload.config().name,
                          std::to_string(workload.options().seq));
}

void print_workload(Workload& workload, const DeviceInfo& device, bool model_was_chosen, const Steps& steps) {
  const model::Config& config = workload.config();
  const WorkloadOptions& w = workload.options();
  fmt::print("model {}{}: {:.1f} M parameters; batch {}, seq {}, {}; {}\n", config.name,
             model_was_chosen ? " (the default on this device)" : "", static_cast<double>(config.parameters()) / 1e6,
             w.batch, w.seq, w.dtype, workload.tokens().description());
  fmt::print("device {}, {:.0f} MiB; {} warm-up + {} measured steps, {} times\n\n", device.name,
             mib(device.memory_bytes), steps.warmup, steps.iters, steps.repeats);
  std::fflush(stdout);
}

Watcher watch(Progress& progress) {
  return {[&progress](const std::string& text) { progress.show(text); }, interrupted};
}

}  // namespace spillway::decision
