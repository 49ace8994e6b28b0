// measurement.cpp - see measurement.h.
#include "decision/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "decision/rules.h"
#include "kernels/launch_error.h"
#include "kernels/matmul.h"
#include "runtime/memory/caching_allocator.h"

namespace spillway::decision {
namespace {

// One repeat, added to `m`.
void run_once(const Workload& workload, const Tokens& tokens, const Steps& o, int repeat, Measurement& m,
              const Watcher& watcher, const MakeCompanion& make_companion) {
  memory::CudaDeviceMemory device;
  memory::CachingAllocator allocator(device);
  const std::unique_ptr<Companion> companion = make_companion ? make_companion(allocator) : nullptr;
  auto trainer = workload.trainer(m.strategy, allocator);
  const activation::PlanTotals plan = activation::totals(trainer->store().plan(), trainer->store().spec());
  m.recomputes = plan.recompute_flops > 0;
  m.offloads = plan.offloaded_bytes > 0;
  m.pageable = trainer->store().plan().host_memory == memory::HostMemory::pageable;

  const int steps = o.warmup + o.iters;
  for (int i = 0; i < steps; ++i) {
    if (watcher.stop()) throw Interrupted("interrupted");
    watcher.progress(fmt::format("repeat {}/{}  {}  {} {}/{}", repeat + 1, o.repeats, m.name,
                                 i < o.warmup ? "warm-up" : "step", i < o.warmup ? i + 1 : i - o.warmup + 1,
                                 i < o.warmup ? o.warmup : o.iters));
    if (i == o.warmup) {
      allocator.reset_peaks();
      if (companion) companion->before_measuring();
    }
    const model::StepResult step = trainer->step(tokens.training);
    if (i < o.warmup) continue;
    m.samples.push_back({repeat, step.step_ms, step.loss});
    m.costs.push_back(step.cost);
    if (companion) companion->after_step(*trainer);
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

  watcher.progress(fmt::format("repeat {}/{}  {}  evaluation", repeat + 1, o.repeats, m.name));
  const float eval = trainer->evaluate(tokens.evaluation);
  if (!first && !same_bits(*m.eval_loss, eval)) m.losses_agree = false;
  m.eval_loss = eval;
  const auto iters = static_cast<std::size_t>(o.iters);
  for (std::size_t i = 0; !first && i < iters; ++i)
    if (!same_bits(m.samples[i].loss, m.samples[m.samples.size() - iters + i].loss)) m.losses_agree = false;
}

}  // namespace

void check_steps(const Steps& steps) {
  constexpr int kMost = 1'000'000;
  const auto within = [kMost](const char* name, int value, int least) {
    if (value < least || value > kMost) throw Error(fmt::format("{} {}: {} to {}", name, value, least, kMost));
  };
  within("warmup", steps.warmup, 0);
  within("iters", steps.iters, 1);
  within("repeats", steps.repeats, 1);
}

Tokens::Tokens(Workload& workload)
    : training(workload.tokens().next(workload.options().batch, workload.options().seq)),
      evaluation(workload.tokens().evaluation(workload.options().batch, workload.options().seq)) {}

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

void measure(const Workload& workload, const Tokens& tokens, const Steps& steps, int repeat, Measurement& m,
             const Watcher& watcher, const MakeCompanion& companion) {
  if (m.status == "oom") return;
  m.batch = workload.options().batch;
  try {
    run_once(workload, tokens, steps, repeat, m, watcher, companion);
  } catch (const std::exception& e) {
    if (!is_out_of_memory(e)) throw;
    m.status = "oom";
    m.error = e.what();
  }
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

std::vector<double> step_times(const Measurement& m) {
  std::vector<double> times;
  for (const Sample& s : m.samples) times.push_back(s.step_time_ms);
  return times;
}

double median_step_ms(const Measurement& m) {
  return median(step_times(m));
}

double samples_per_s(const Measurement& m) {
  return static_cast<double>(m.batch) * 1000.0 / median_step_ms(m);
}

double median_ms(const Measurement& m, double activation::StepCost::*field) {
  std::vector<double> values;
  for (const activation::StepCost& c : m.costs) values.push_back(c.*field);
  return median(values);
}

std::optional<double> spread(const Measurement& m) {
  constexpr std::size_t kFewest = 3;
  const std::vector<double> times = step_times(m);
  if (times.size() < kFewest) return std::nullopt;
  return median_absolute_deviation(times) / median(times);
}

bool noisy(const Measurement& m) {
  return spread(m).value_or(0) > kNoisySpread;
}

std::string spread_text(const Measurement& m) {
  const auto s = spread(m);
  return s ? fmt::format("{:.1f}%{}", 100 * *s, noisy(m) ? " noisy" : "") : std::string("-");
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

}  // namespace spillway::decision
