// bench_command.cpp - `spillway bench`: checks everything that can be checked before the first allocation, measures,
// writes the record, prints the comparison.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "decision/commands.h"
#include "decision/json_file.h"
#include "decision/measuring.h"
#include "decision/record.h"

namespace spillway::decision {

void check_benchmark(const BenchmarkOptions& o) {
  check_strategies(o.strategies);
  check_steps(o.steps);
  if (!o.source_baseline.empty()) {
    const nlohmann::ordered_json record = read_json(o.source_baseline);
    if (!value_at(record, "baseline").is_object() || !value_at(record, "tuned").is_object())
      throw Error(fmt::format("source-baseline {}: not a 73 record", o.source_baseline));
  }
  const auto not_negative = [](const char* name, const std::optional<double>& value) {
    if (value && !(std::isfinite(*value) && *value >= 0))
      throw Error(fmt::format("{} {}: a finite number, 0 or more", name, *value));
  };
  not_negative("memory-cap-mb", o.memory_cap_mb);
  not_negative("min-samples-per-s", o.min_samples_per_s);
  not_negative("max-val-loss", o.max_val_loss);
  not_negative("saving-threshold-mb", o.thresholds.saving_mb);
  not_negative("throughput-threshold", o.thresholds.throughput_ratio);
}

int bench(BenchCommand command) {
  BenchmarkOptions& o = command.benchmark;
  if (o.strategies.empty()) o.strategies = default_strategies();
  check_benchmark(o);
  const DeviceInfo device = require_device();
  const bool chosen = o.workload.model.empty();
  Workload workload(o.workload, device);
  RunFolder folder(command.place.results, run_name(command.place, device, workload));
  // A record refers to another from its own folder, so that the two can be moved together.
  if (!o.source_baseline.empty())
    o.source_baseline = std::filesystem::proximate(std::filesystem::absolute(o.source_baseline),
                                                   std::filesystem::absolute(folder.path()))
                            .string();
  const std::string record_73 = record_names(device).training_73;
  if (o.source_baseline.empty() && std::filesystem::exists(folder.path() / record_73)) o.source_baseline = record_73;
  Benchmark benchmark;
  record_run(folder, record_names(device).benchmark_76, Sidecar::v1, [&] {
    print_workload(workload, device, chosen, o.steps);
    Progress progress;
    benchmark = run_benchmark(o, device, workload, watch(progress));
    return Measured{benchmark_record(benchmark, command.place.command_line), benchmark_report(benchmark)};
  });
  const bool any = std::any_of(benchmark.measurements.begin(), benchmark.measurements.end(),
                               [](const Measurement& m) { return m.status == "ok"; });
  if (!any) throw Error("no strategy could be measured; each row says why");
  if (!*benchmark.losses_identical) throw Error("the losses of repeats or strategies differ: see the record");
  return 0;
}

}  // namespace spillway::decision
