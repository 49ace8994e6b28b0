// strategy_benchmark.cpp - the measuring half of experiment 76: strategies take turns, one after another, repeat after
// repeat; what they measured is then judged together.
#include "decision/strategy_benchmark.h"

namespace spillway::decision {
namespace {

std::optional<bool> identical_losses(const std::vector<Measurement>& measurements) {
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
  return reference ? std::optional(true) : std::nullopt;
}

}  // namespace

std::vector<Candidate> candidates(const std::vector<Measurement>& measurements) {
  std::vector<Candidate> list;
  for (const Measurement& m : measurements) {
    Candidate c{m.name, m.status, {}, {}, {}, {}};
    if (m.status == "ok") {
      c.peak_memory_mb = mib(m.peak_bytes);
      c.samples_per_s = samples_per_s(m);
      c.eval_loss = *m.eval_loss;
    }
    list.push_back(c);
  }
  return list;
}

Benchmark run_benchmark(const BenchmarkOptions& options, const DeviceInfo& device, Workload& workload,
                        const Watcher& watcher) {
  Benchmark b;
  b.options = options;
  b.options.workload = workload.options();
  b.run = describe(workload, device);
  const BenchmarkOptions& o = b.options;
  for (const std::string& name : o.strategies) {
    Measurement m;
    m.name = m.strategy = name;
    b.measurements.push_back(std::move(m));
  }
  const Tokens tokens(workload);
  const auto orders = balanced_order(static_cast<int>(o.strategies.size()), o.steps.repeats, o.workload.seed);
  for (int repeat = 0; repeat < o.steps.repeats; ++repeat)
    for (int index : orders[static_cast<std::size_t>(repeat)])
      measure(workload, tokens, o.steps, repeat, b.measurements[static_cast<std::size_t>(index)], watcher);
  watcher.progress("");

  for (Measurement& m : b.measurements)
    if (m.status == "ok") judge(m);
  b.losses_identical = identical_losses(b.measurements);
  const auto list = candidates(b.measurements);
  b.budget.memory_cap_mb = o.memory_cap_mb.value_or(mib(device.memory_bytes));
  b.budget.min_samples_per_s = o.min_samples_per_s;
  b.budget.max_val_loss = o.max_val_loss ? o.max_val_loss : default_quality_floor(list);
  b.summary = summarize(list, b.budget);
  b.decision = decide(b.summary, o.thresholds, Wording::benchmark_76);
  return b;
}

}  // namespace spillway::decision
