// bench_command.cpp - `spillway bench`: checks everything that can be checked before the first allocation, measures,
// writes the record, prints the comparison.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "decision/commands.h"
#include "decision/progress.h"
#include "decision/record.h"

namespace spillway::decision {
namespace {

void check_options(const BenchmarkOptions& o) {
  std::set<std::string> seen;
  for (const std::string& name : o.strategies) {
    const auto& known = activation::strategy_names();
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(fmt::format("unknown strategy '{}': choose from {}", name, fmt::join(known, ", ")));
    if (!seen.insert(name).second) throw Error(fmt::format("strategy '{}' is named twice", name));
  }
  check_steps(o.steps);
  const auto finite = [](const char* name, const std::optional<double>& value) {
    if (value && !std::isfinite(*value)) throw Error(fmt::format("{} {}: a finite number", name, *value));
  };
  finite("memory-cap-mb", o.memory_cap_mb);
  finite("min-samples-per-s", o.min_samples_per_s);
  finite("max-val-loss", o.max_val_loss);
  finite("saving-threshold-mb", o.thresholds.saving_mb);
  finite("throughput-threshold", o.thresholds.throughput_ratio);
}

}  // namespace

int bench(BenchCommand command) {
  BenchmarkOptions& o = command.benchmark;
  if (o.strategies.empty()) o.strategies = {"baseline", "checkpoint", "offload", "hybrid"};
  check_options(o);
  const DeviceInfo device = require_device();
  const bool chosen = o.workload.model.empty();
  Workload workload(o.workload, device);
  const model::Config& config = workload.config();
  RunFolder folder(command.results,
                   command.run.empty() ? default_run_name(device.is_host, config.name, o.workload.seq) : command.run);
  const std::string record = device.is_host ? "76_host_memory.json" : "76_real_gpu_memory.json";

  try {
    folder.prepare(record);
    catch_interrupts();
    fmt::print("model {}{}: {:.1f} M parameters; batch {}, seq {}, {}; {}\n", config.name,
               chosen ? " (the default on this device)" : "", static_cast<double>(config.parameters()) / 1e6,
               o.workload.batch, o.workload.seq, o.workload.dtype, workload.tokens().description());
    fmt::print("device {}, {:.0f} MiB; {} warm-up + {} measured steps, {} times\n\n", device.name,
               static_cast<double>(device.memory_bytes) / (1024.0 * 1024.0), o.steps.warmup, o.steps.iters,
               o.steps.repeats);
    std::fflush(stdout);
    Progress progress;
    const Benchmark benchmark =
        run_benchmark(o, device, workload, {[&](const std::string& text) { progress.show(text); }, interrupted});
    const auto path = folder.write(record, benchmark_record(benchmark, command.command_line));
    fmt::print("{}\nrecord: {}\n", benchmark_report(benchmark), path.string());
    const bool any = std::any_of(benchmark.measurements.begin(), benchmark.measurements.end(),
                                 [](const Measurement& m) { return m.status == "ok"; });
    return any && benchmark.losses_identical ? 0 : 1;
  } catch (...) {
    folder.discard_if_empty();
    throw;
  }
}

}  // namespace spillway::decision
