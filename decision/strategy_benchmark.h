// strategy_benchmark.h - experiment 76: one workload under several memory strategies. Same weights, same tokens, same
// optimizer; only the plan differs. What comes out is a list of candidates that rules.h can judge.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decision/rules.h"
#include "decision/workload.h"
#include "runtime/memory/category.h"

namespace spillway::decision {

struct BenchmarkOptions {
  WorkloadOptions workload;
  std::vector<std::string> strategies;  // empty: baseline, checkpoint, offload, hybrid
  int warmup = 2, iters = 5, repeats = 3;
  std::optional<double> memory_cap_mb;  // default: the device's memory
  double min_samples_per_s = 0.0;
  std::optional<double> max_val_loss;  // default: default_quality_floor
  Thresholds thresholds;
};

// One measured step.
struct Sample {
  int repeat = 0;
  double step_time_ms = 0;
  float loss = 0;
};

// Everything measured of one strategy. Fields that were not measured are absent.
struct Measurement {
  std::string strategy;
  std::string status = "ok";  // "ok", "oom", "invalid"
  std::string error;          // one line, unless ok
  std::vector<Sample> samples;
  std::optional<float> eval_loss;
  bool losses_agree = true, peaks_agree = true;  // of every repeat: equal bit for bit, byte for byte
  std::int64_t peak_bytes = 0, peak_reserved_bytes = 0, peak_activation_bytes = 0;
  memory::CategoryBytes at_peak{};
  std::int64_t allocator_retries = 0, pinned_host_bytes = 0;
  std::int64_t lmhead_chunk = 0;  // as resolved: tokens of logits at a time
  bool recomputes = false, offloads = false;
  bool pageable = false;  // offloads through pageable memory: copies block the host, and nothing waits on a stream
  std::vector<activation::StepCost> costs;  // of each sample
};

struct Benchmark {
  BenchmarkOptions options;  // as resolved
  DeviceInfo device;
  std::string model, tokens;
  std::vector<Measurement> measurements;  // in the order of options.strategies
  bool losses_identical = true;           // over all strategies that ran
  Budget budget;
  Summary summary;
  Decision decision;
};

// Of every measured step, in ms.
std::vector<double> step_times(const Measurement& m);
// Median over the measured steps of one time of their cost.
double median_ms(const Measurement& m, double activation::StepCost::*field);
inline double mib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}
// Spread of the step times: MAD / median.
double spread(const Measurement& m);
// Above this the times are marked doubtful.
inline constexpr double kNoisySpread = 0.10;

// Which strategy runs when: for each repeat, indices into the strategies. A seeded shuffle, rotated by one each repeat,
// so that over as many repeats as strategies each has had every place once.
std::vector<std::vector<int>> balanced_order(int strategies, int repeats, std::uint64_t seed);

// Measures. `progress` is told in one line what runs now ("" at the end); `stop` is asked between steps, and when it
// says true Interrupted is thrown.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
Benchmark run_benchmark(const BenchmarkOptions& options, const DeviceInfo& device, Workload& workload,
                        const std::function<void(const std::string&)>& progress, const std::function<bool()>& stop);

// Candidates as the rules see them.
std::vector<Candidate> candidates(const std::vector<Measurement>& measurements, std::int64_t batch);
// The 76 raw record of PROTOCOL.md.
nlohmann::ordered_json benchmark_record(const Benchmark& benchmark, const std::string& command_line);
// For people: the comparison, what stood in memory at each peak, the decision.
std::string benchmark_report(const Benchmark& benchmark);

}  // namespace spillway::decision
