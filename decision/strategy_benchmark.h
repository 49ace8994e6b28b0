// strategy_benchmark.h - experiment 76: one workload under several memory strategies. Same weights, same tokens, same
// optimizer; only the plan differs. What comes out is a list of candidates that rules.h can judge.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decision/measurement.h"
#include "decision/rules.h"
#include "decision/run_record.h"
#include "decision/workload.h"

namespace spillway::decision {

struct BenchmarkOptions {
  WorkloadOptions workload;
  std::vector<std::string> strategies;  // empty: baseline, checkpoint, offload, hybrid
  Steps steps;
  std::string source_baseline;          // the 73 record this run refers to; empty: none
  std::optional<double> memory_cap_mb;  // default: the device's memory
  std::optional<double> min_samples_per_s;
  std::optional<double> max_val_loss;  // default: default_quality_floor
  Thresholds thresholds;
};

struct Benchmark {
  BenchmarkOptions options;  // as resolved
  Run run;
  std::vector<Measurement> measurements;  // in the order of options.strategies
  std::optional<bool> losses_identical;   // over all repeats of all strategies that ran; absent when none did
  Budget budget;
  Summary summary;
  Decision decision;
};

// Measures. Throws Interrupted.
Benchmark run_benchmark(const BenchmarkOptions& options, const DeviceInfo& device, Workload& workload,
                        const Watcher& watcher);

// Candidates as the rules see them.
std::vector<Candidate> candidates(const std::vector<Measurement>& measurements);
// The 76 raw record of PROTOCOL.md.
nlohmann::ordered_json benchmark_record(const Benchmark& benchmark, const std::string& command_line);
// For people: the comparison, what stood in memory at each peak, the decision.
std::string benchmark_report(const Benchmark& benchmark);

}  // namespace spillway::decision
