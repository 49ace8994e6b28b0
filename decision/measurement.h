// measurement.h - what both measuring experiments (73 and 76) do with one memory strategy on one workload: train
// steps, take times, losses and peaks, and notice when memory ran out. A measurement is told in repeats, each a run of
// its own: a fresh allocator, fresh weights from the same seed, warm-up, measured steps, evaluation.
#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decision/progress.h"
#include "decision/workload.h"
#include "runtime/memory/category.h"

namespace spillway::decision {

// How often: warm-up and measured steps of a repeat, and repeats.
struct Steps {
  int warmup = 2, iters = 5, repeats = 3;
};
// Error when a number is below the least that makes sense (0, 1, 1), or absurd.
void check_steps(const Steps& steps);

// The tokens of every repeat: taken once, because a source that reads a file moves on.
struct Tokens {
  data::TokenBatch training, evaluation;
  explicit Tokens(Workload& workload);
};

// One measured step.
struct Sample {
  int repeat = 0;
  double step_time_ms = 0;
  float loss = 0;
};

// Everything measured of one strategy on one workload. Fields that were not measured are absent.
struct Measurement {
  std::string name;  // of the candidate: in 76 the strategy, in 73 "baseline" or "tuned"
  std::string strategy;
  std::int64_t batch = 1;
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

// Who is told what runs now, in one line ("" at the end), and who is asked between steps whether to stop.
struct Watcher {
  std::function<void(const std::string&)> progress;
  std::function<bool()> stop;
};

// Something that goes along with a repeat, in the same run: 74's profiling.
class Companion {
 public:
  virtual ~Companion() = default;
  // Behind the warm-up: from now on the machine is the measured steps' alone.
  virtual void before_measuring() = 0;
  // Behind each measured step; it may train steps of its own.
  virtual void after_step(model::Trainer& trainer) = 0;
};
// Made before a repeat's trainer, gone before its allocator.
using MakeCompanion = std::function<std::unique_ptr<Companion>(memory::Allocator&)>;

// One repeat (0 ..), added to `m`. When memory runs out `m` becomes "oom", and further repeats do nothing: its bytes do
// not depend on the repeat. Nothing of it is left on the device, however it ended. Throws Interrupted.
void measure(const Workload& workload, const Tokens& tokens, const Steps& steps, int repeat, Measurement& m,
             const Watcher& watcher, const MakeCompanion& companion = nullptr);
// After the last repeat: "invalid", with a reason, when a loss is not finite.
void judge(Measurement& m);

// Memory ran out: of the device, of pinned host memory, or inside a library.
bool is_out_of_memory(const std::exception& error);

// Of every measured step, in ms.
std::vector<double> step_times(const Measurement& m);
// Median over the measured steps.
double median_step_ms(const Measurement& m);
double samples_per_s(const Measurement& m);
// Median over the measured steps of one time of their cost, ms.
double median_ms(const Measurement& m, double activation::StepCost::*field);
// Spread of the step times: MAD / median. Absent where there are too few (below 3) to have one.
std::optional<double> spread(const Measurement& m);
bool noisy(const Measurement& m);
// Above this spread the times are marked doubtful.
inline constexpr double kNoisySpread = 0.10;
// For tables: "1.3%", "12.0% noisy", "-".
std::string spread_text(const Measurement& m);

// Losses are compared as bits: equal to rounding is not equal here.
inline bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

inline double mib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

// Which strategy runs when: for each repeat, indices into the strategies. A seeded shuffle, rotated by one each repeat,
// so that over as many repeats as strategies each has had every place once.
std::vector<std::vector<int>> balanced_order(int strategies, int repeats, std::uint64_t seed);

}  // namespace spillway::decision
