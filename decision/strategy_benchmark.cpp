// strategy_benchmark.cpp - the measuring half of experiment 76. Each (repeat, strategy) is a run of its own: a fresh
// allocator, fresh weights from the same seed, warm-up, peaks reset, measured steps, evaluation. Nothing of one
// strategy is left when the next begins, also when it ran out of memory.
#include "decision/strategy_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/launch_error.h"
#include "kernels/matmul.h"

namespace spillway::decision {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// The tokens of every strategy and repeat: taken once, because a source that reads a file moves on.
struct Tokens {
  data::TokenBatch training, evaluation;
};

// Memory runs out in more places than the allocator: host memory to offload to, a stream, a kernel loaded late,
// cuBLAS's own workspace.
bool is_out_of_memory(const std::exception& e) {
  if (dynamic_cast<const memory::OutOfMemory*>(&e)) return true;
  if (const auto* cuda = dynamic_cast<const CudaError*>(&e)) return cuda->code() == cudaErrorMemoryAllocation;
  if (const auto* launch = dynamic_cast<const kernels::LaunchError*>(&e))
    return launch->error() == cudaErrorMemoryAllocation;
  const auto* cublas = dynamic_cast<const kernels::CublasError*>(&e);
  return cublas && cublas->status() == CUBLAS_STATUS_ALLOC_FAILED;
}

// One repeat of one strategy, added to `m`.
void run_once(const BenchmarkOptions& o, const Workload& workload, const Tokens& tokens, int repeat, Measurement& m,
              const std::function<void(const std::string&)>& progress, const std::function<bool()>& stop) {
  memory::CudaDeviceMemory device;
  memory::CachingAllocator allocator(device);
  auto trainer = workload.trainer(m.strategy, allocator);
  const activation::PlanTotals plan = activation::totals(trainer->store().plan(), trainer->store().spec());
  m.recomputes = plan.recompute_flops > 0;
  m.offloads = plan.offloaded_bytes > 0;
  m.pageable = trainer->store().plan().host_memory == memory::HostMemory::pageable;

  const int steps = o.warmup + o.iters;
  for (int i = 0; i < steps; ++i) {
    if (stop()) throw Interrupted("interrupted");
    progress(fmt::format("repeat {}/{}  {}  {} {}/{}", repeat + 1, o.repeats, m.strategy,
                         i < o.warmup ? "warm-up" : "step", i < o.warmup ? i + 1 : i - o.warmup + 1,
                         i < o.warmup ? o.warmup : o.iters));
    if (i == o.warmup) allocator.reset_peaks();
    const model::StepResult step = trainer->step(tokens.training);
    if (i < o.warmup) continue;
    m.samples.push_back({repeat, step.step_ms, step.loss});
    m.costs.push_back(step.cost);
  }

  const memory::Stats& stats = allocator.stats();
  const auto peak_activation = stats.max_by_category[static_cast<std::size_t>(memory::Category::activation)];
  const bool first = !m.eval_loss;
  if (!first && (m.peak_bytes != stats.max_allocated || m.peak_reserved_bytes != stats.max_reserved))
    m.peaks_agree = false;
  m.peak_bytes = std::max(m.peak_bytes, stats.max_allocated);
  m.peak_reserved_bytes = std::max(m.peak_reserved_bytes, stats.max_reserved);
  m.peak_activation_bytes = std::max(m.peak_activation_bytes, peak_activation);
  m.at_peak = stats.at_peak;
  m.allocator_retries += stats.retries;
  m.pinned_host_bytes = trainer->store().pinned_host_bytes();
  m.lmhead_chunk = trainer->lmhead_chunk();

  progress(fmt::format("repeat {}/{}  {}  evaluation", repeat + 1, o.repeats, m.strategy));
  const float eval = trainer->evaluate(tokens.evaluation);
  if (!first && !same_bits(*m.eval_loss, eval)) m.losses_agree = false;
  m.eval_loss = eval;
  const auto iters = static_cast<std::size_t>(o.iters);
  for (std::size_t i = 0; !first && i < iters; ++i)
    if (!same_bits(m.samples[i].loss, m.samples[m.samples.size() - iters + i].loss)) m.losses_agree = false;
}

void judge(Measurement& m) {
  const auto bad =
      std::find_if(m.samples.begin(), m.samples.end(), [](const Sample& s) { return !std::isfinite(s.loss); });
  if (bad != m.samples.end()) {
    m.status = "invalid";
    m.error = fmt::format("loss is {} at measured step {}", bad->loss, bad - m.samples.begin() + 1);
  } else if (m.eval_loss && !std::isfinite(*m.eval_loss)) {
    m.status = "invalid";
    m.error = fmt::format("evaluation loss is {}", *m.eval_loss);
  }
}

bool identical_losses(const std::vector<Measurement>& measurements) {
  const Measurement* reference = nullptr;
  for (const Measurement& m : measurements) {
    if (m.status != "ok") continue;
    if (!m.losses_agree) return false;
    if (!reference) {
      reference = &m;
      continue;
    }
    if (!same_bits(*reference->eval_loss, *m.eval_loss)) return false;
    for (std::size_t i = 0; i < m.samples.size(); ++i)
      if (!same_bits(reference->samples[i].loss, m.samples[i].loss)) return false;
  }
  return true;
}

}  // namespace

std::vector<double> step_times(const Measurement& m) {
  std::vector<double> times;
  for (const Sample& s : m.samples) times.push_back(s.step_time_ms);
  return times;
}

double median_ms(const Measurement& m, double activation::StepCost::*field) {
  std::vector<double> values;
  for (const activation::StepCost& c : m.costs) values.push_back(c.*field);
  return median(values);
}

double spread(const Measurement& m) {
  const std::vector<double> times = step_times(m);
  return median_absolute_deviation(times) / median(times);
}

std::vector<std::vector<int>> balanced_order(int strategies, int repeats, std::uint64_t seed) {
  std::vector<int> first(static_cast<std::size_t>(strategies));
  std::iota(first.begin(), first.end(), 0);
  std::mt19937_64 random(seed);
  for (std::size_t i = first.size(); i > 1; --i) std::swap(first[i - 1], first[random() % i]);
  std::vector<std::vector<int>> order;
  for (int r = 0; r < repeats; ++r) {
    order.push_back(first);
    std::rotate(first.begin(), first.begin() + 1, first.end());
  }
  return order;
}

std::vector<Candidate> candidates(const std::vector<Measurement>& measurements, std::int64_t batch) {
  std::vector<Candidate> list;
  for (const Measurement& m : measurements) {
    Candidate c{m.strategy, m.status, {}, {}, {}, {}};
    if (m.status == "ok") {
      c.peak_memory_mb = mib(m.peak_bytes);
      c.samples_per_s = static_cast<double>(batch) * 1000.0 / median(step_times(m));
      c.eval_loss = *m.eval_loss;
    }
    list.push_back(c);
  }
  return list;
}

Benchmark run_benchmark(const BenchmarkOptions& options, const DeviceInfo& device, Workload& workload,
                        const std::function<void(const std::string&)>& progress, const std::function<bool()>& stop) {
  Benchmark b;
  b.options = options;
  b.options.workload = workload.options();
  b.device = device;
  b.model = workload.config().name;
  b.tokens = workload.tokens().description();
  const BenchmarkOptions& o = b.options;
  for (const std::string& name : o.strategies) {
    Measurement m;
    m.strategy = name;
    b.measurements.push_back(std::move(m));
  }
  const Tokens tokens{workload.tokens().next(o.workload.batch, o.workload.seq),
                      workload.tokens().evaluation(o.workload.batch, o.workload.seq)};
  const auto orders = balanced_order(static_cast<int>(o.strategies.size()), o.repeats, o.workload.seed);
  for (int repeat = 0; repeat < o.repeats; ++repeat)
    for (int index : orders[static_cast<std::size_t>(repeat)]) {
      Measurement& m = b.measurements[static_cast<std::size_t>(index)];
      if (m.status == "oom") continue;  // its bytes do not depend on the repeat
      try {
        run_once(o, workload, tokens, repeat, m, progress, stop);
      } catch (const std::exception& e) {
        if (!is_out_of_memory(e)) throw;
        m.status = "oom";
        m.error = e.what();
      }
    }
  progress("");

  for (Measurement& m : b.measurements)
    if (m.status == "ok") judge(m);
  b.losses_identical = identical_losses(b.measurements);
  const auto list = candidates(b.measurements, o.workload.batch);
  b.budget.memory_cap_mb = o.memory_cap_mb.value_or(mib(device.memory_bytes));
  b.budget.min_samples_per_s = o.min_samples_per_s;
  b.budget.max_val_loss = o.max_val_loss ? o.max_val_loss : default_quality_floor(list);
  b.summary = summarize(list, b.budget);
  b.decision = decide(b.summary, o.thresholds, Wording::benchmark_76);
  return b;
}

}  // namespace spillway::decision
