// bench_command.cpp - `spillway bench`: checks everything that can be checked before the first allocation, measures,
// writes the record, prints the comparison.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "decision/commands.h"
#include "decision/measuring.h"
#include "decision/record.h"

namespace spillway::decision {

void check_benchmark(const BenchmarkOptions& o) {
  check_strategies(o.strategies);
  check_steps(o.steps);
  if (!o.source_baseline.empty() && !std::filesystem::is_regular_file(o.source_baseline))
    throw Error(fmt::format("source-baseline {}: no such file; give a 73 record", o.source_baseline));
  const auto finite = [](const char* name, const std::optional<double>& value) {
    if (value && !std::isfinite(*value)) throw Error(fmt::format("{} {}: a finite number", name, *value));
  };
  finite("memory-cap-mb", o.memory_cap_mb);
  finite("min-samples-per-s", o.min_samples_per_s);
  finite("max-val-loss", o.max_val_loss);
  finite("saving-threshold-mb", o.thresholds.saving_mb);
  finite("throughput-threshold", o.thresholds.throughput_ratio);
}

int bench(BenchCommand command) {
  BenchmarkOptions& o = command.benchmark;
  if (o.strategies.empty()) o.strategies = default_strategies();
  check_benchmark(o);
  const DeviceInfo device = require_device();
  const bool chosen = o.workload.model.empty();
  Workload workload(o.workload, device);
  RunFolder folder(command.place.results, run_name(command.place, device, workload));
  const std::string record_73 = record_names(device).training_73;
  if (o.source_baseline.empty() && std::filesystem::exists(folder.path() / record_73)) o.source_baseline = record_73;
  Benchmark benchmark;
  const auto path = record_run(folder, record_names(device).benchmark_76, Sidecar::v1, [&] {
    print_workload(workload, device, chosen, o.steps);
    Progress progress;
    benchmark = run_benchmark(o, device, workload, watch(progress));
    return benchmark_record(benchmark, command.place.command_line);
  });
  fmt::print("{}\nrecord: {}\n", benchmark_report(benchmark), path.string());
  const bool any = std::any_of(benchmark.measurements.begin(), benchmark.measurements.end(),
                               [](const Measurement& m) { return m.status == "ok"; });
  return any && benchmark.losses_identical ? 0 : 1;
}

}  // namespace spillway::decision
