// rules.cpp - see rules.h. Reads top-down as PROTOCOL.md's section on 76 does.
#include "decision/rules.h"

#include <algorithm>
#include <cmath>

namespace spillway::decision {
namespace {

// A candidate that the rules may compare: every figure there and finite.
struct Measured {
  const Candidate* candidate;
  double peak, samples_per_s, eval_loss;
};

std::optional<Measured> measured(const Candidate& c) {
  const std::optional<double> loss = c.eval_loss ? c.eval_loss : c.val_loss;
  if (c.status == "oom" || c.status == "invalid" || !c.peak_memory_mb || !c.samples_per_s || !loss) return std::nullopt;
  if (!std::isfinite(*c.peak_memory_mb) || !std::isfinite(*c.samples_per_s) || !std::isfinite(*loss))
    return std::nullopt;
  return Measured{&c, *c.peak_memory_mb, *c.samples_per_s, *loss};
}

std::optional<Measured> measured_baseline(const std::vector<Candidate>& candidates) {
  for (const Candidate& c : candidates)
    if (c.name == "baseline")
      if (auto m = measured(c)) return m;
  return std::nullopt;
}

}  // namespace

Summary summarize(const std::vector<Candidate>& candidates, const Budget& budget) {
  Summary s;
  s.candidate_count = static_cast<int>(candidates.size());
  std::vector<Measured> feasible;
  for (const Candidate& c : candidates) {
    if (c.status == "oom") {
      ++s.oom_count;
      continue;
    }
    const auto m = measured(c);
    if (!m) {
      ++s.invalid_count;
      continue;
    }
    ++s.measured_count;
    const bool quality = !budget.max_val_loss || m->eval_loss <= *budget.max_val_loss;
    if (!quality) ++s.quality_failed_count;
    if (quality && (!budget.memory_cap_mb || m->peak <= *budget.memory_cap_mb) &&
        (!budget.min_samples_per_s || m->samples_per_s >= *budget.min_samples_per_s))
      feasible.push_back(*m);
  }
  std::stable_sort(feasible.begin(), feasible.end(), [](const Measured& a, const Measured& b) {
    if (a.peak != b.peak) return a.peak < b.peak;
    if (a.samples_per_s != b.samples_per_s) return a.samples_per_s > b.samples_per_s;
    return a.eval_loss < b.eval_loss;
  });
  for (const Measured& m : feasible) s.feasible_names.push_back(m.candidate->name);

  const auto baseline = measured_baseline(candidates);
  if (baseline) s.baseline_peak_memory_mb = baseline->peak;
  if (!feasible.empty()) {
    s.best_candidate = feasible[0].candidate->name;
    s.best_peak_memory_mb = feasible[0].peak;
  }
  if (baseline && !feasible.empty()) {
    s.memory_saving_mb = round6(baseline->peak - feasible[0].peak);
    if (baseline->samples_per_s != 0) s.throughput_ratio = round6(feasible[0].samples_per_s / baseline->samples_per_s);
  }
  return s;
}

Decision decide(const Summary& s, const Thresholds& t, Wording wording) {
  const auto say = [&](const char* decision, const char* reason76, const char* next76, const char* reason75,
                       const char* next75) {
    return wording == Wording::benchmark_76 ? Decision{decision, reason76, next76}
                                            : Decision{decision, reason75, next75};
  };
  const bool ratio_ok = !s.throughput_ratio || *s.throughput_ratio >= t.throughput_ratio;
  if (!s.best_candidate)
    return say("reject", "no_strategy_meets_budget_and_quality", "rework_checkpoint_or_offload_scope",
               "no_strategy_meets_budget_and_quality", "tighten_batch_or_rework_memory_plan");
  if (*s.best_candidate != "baseline" && s.memory_saving_mb >= t.saving_mb && ratio_ok)
    return say("accept", "strategy_is_best_feasible_option", "promote_to_training_run",
               "compression_strategy_is_best_feasible_option", "promote_to_training_run");
  if (s.quality_failed_count > 0)
    return say("tune", "strategy_needs_quality_recovery", "adjust_checkpoint_granularity_or_offload_scope",
               "compression_needs_quality_recovery", "adjust_checkpoint_scope_or_batch_plan");
  if (s.memory_saving_mb < t.saving_mb)
    return say("tune", "memory_saving_below_meaningful_threshold", "test_pressure_or_offload_scope",
               "memory_saving_below_meaningful_threshold", "test_larger_pressure_or_optimizer_compression");
  if (!ratio_ok)
    return say("tune", "throughput_loss_exceeds_budget", "reduce_checkpoint_or_offload_scope",
               "throughput_loss_exceeds_budget", "reduce_compression_scope");
  return say("tune", "baseline_still_best_under_current_budget", "revisit_strategy_mix",
             "baseline_still_best_under_current_budget", "revisit_memory_strategy_mix");
}

std::optional<double> default_quality_floor(const std::vector<Candidate>& candidates) {
  const auto baseline = measured_baseline(candidates);
  if (!baseline) return std::nullopt;
  return round6(baseline->eval_loss * 1.02);
}

double round6(double value) {
  return std::round(value * 1e6) / 1e6;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

double median_absolute_deviation(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (double v : values) deviations.push_back(std::abs(v - middle));
  return median(deviations);
}

}  // namespace spillway::decision
