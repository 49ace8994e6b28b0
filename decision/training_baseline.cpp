// training_baseline.cpp - the variation, the rules and the measuring half of experiment 73.
#include "decision/training_baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace spillway::decision {
namespace {

constexpr const char* kVariables = "dtype, lmhead-chunk, strategy or batch";

std::int64_t integer(const std::string& variable, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(fmt::format("tuned {}={}: a whole number", variable, text));
  return value;
}

// What `variable` is in this arm, as text.
std::string value_of(const Arm& arm, const std::string& variable) {
  if (variable == "dtype") return arm.workload.dtype;
  if (variable == "lmhead-chunk") return std::to_string(arm.workload.lmhead_chunk);
  if (variable == "strategy") return arm.strategy;
  if (variable == "batch") return std::to_string(arm.workload.batch);
  throw Error(fmt::format("tuned '{}': a 73 run varies {}", variable, kVariables));
}

void set(Arm& arm, const std::string& variable, const std::string& value) {
  if (variable == "dtype") arm.workload.dtype = canonical_dtype(value);
  if (variable == "lmhead-chunk") arm.workload.lmhead_chunk = integer(variable, value);
  if (variable == "strategy") arm.strategy = value;
  if (variable == "batch") arm.workload.batch = integer(variable, value);
}

std::optional<ArmFigures> figures(const Measurement& m) {
  if (m.status != "ok") return std::nullopt;
  return ArmFigures{median_step_ms(m), mib(m.peak_bytes), static_cast<double>(*m.eval_loss)};
}

}  // namespace

Variation resolve_variation(const BaselineOptions& options) {
  Variation v;
  v.baseline = {options.workload, options.strategy};
  v.baseline.workload.dtype = canonical_dtype(options.workload.dtype);
  std::vector<std::string> changes = options.tuned;
  if (changes.empty()) changes = {v.baseline.workload.dtype == "bfloat16" ? "dtype=float32" : "dtype=bfloat16"};
  v.tuned = v.baseline;
  for (const std::string& change : changes) {
    const auto equals = change.find('=');
    if (equals == std::string::npos)
      throw Error(fmt::format("tuned '{}': write variable=value, with {}", change, kVariables));
    const std::string variable = change.substr(0, equals), before = value_of(v.baseline, variable);
    set(v.tuned, variable, change.substr(equals + 1));
    const std::string after = value_of(v.tuned, variable);
    if (after == before) throw Error(fmt::format("tuned {}: the baseline has {}={} too", change, variable, before));
    if (v.variable == variable) throw Error(fmt::format("tuned gives {} twice", variable));
    if (!v.variable.empty())
      throw Error(fmt::format("tuned changes {} and {}: a 73 run varies exactly one variable", v.variable, variable));
    v.variable = variable;
    v.baseline_value = before;
    v.tuned_value = after;
  }
  return v;
}

BaselineSummary compare(const ArmFigures& baseline, const ArmFigures& tuned) {
  BaselineSummary s;
  const auto percent = [](double delta, double of) { return of == 0 ? 0 : round6(100 * delta / of); };
  s.step_time_delta_ms = round6(baseline.step_time_ms - tuned.step_time_ms);
  s.peak_mem_delta_exact_mb = baseline.peak_mem_mb - tuned.peak_mem_mb;
  s.peak_mem_delta_mb = round6(s.peak_mem_delta_exact_mb);
  s.time_improved = s.step_time_delta_ms > 0;
  s.memory_improved = s.peak_mem_delta_mb > 0;
  s.time_improvement_pct = percent(s.step_time_delta_ms, baseline.step_time_ms);
  s.memory_improvement_pct = percent(s.peak_mem_delta_mb, baseline.peak_mem_mb);
  s.meaningful_memory_improved = s.peak_mem_delta_mb >= kMeaningfulMemoryMb;
  return s;
}

Decision decide_baseline(const BaselineSummary& s, const ArmFigures& baseline, const ArmFigures& tuned) {
  const bool quality = tuned.eval_loss <= baseline.eval_loss * kQualityMargin;
  const bool meaningful = s.step_time_delta_ms >= kMeaningfulTimeMs && s.meaningful_memory_improved;
  if (meaningful && quality) return {"accept", "time_and_memory_improved_within_quality_floor", ""};
  if (s.time_improved || s.memory_improved)
    return {"tune", quality ? "improvement_below_meaningful_threshold" : "quality_below_floor", ""};
  return {"reject", "neither_time_nor_memory_improved", ""};
}

TrainingBaseline run_baseline(const BaselineOptions& options, const Variation& variation, const DeviceInfo& device,
                              Workload& baseline, Workload& tuned, const Watcher& watcher) {
  TrainingBaseline r{options, variation, describe(baseline, device), {}, {}, {}, {}};
  r.options.workload = baseline.options();
  r.baseline.name = "baseline";
  r.baseline.strategy = variation.baseline.strategy;
  r.tuned.name = "tuned";
  r.tuned.strategy = variation.tuned.strategy;
  struct Turn {
    const Workload& workload;
    Tokens tokens;
    Measurement& m;
  };
  const std::array<Turn, 2> turns = {Turn{baseline, Tokens(baseline), r.baseline}, Turn{tuned, Tokens(tuned), r.tuned}};
  const auto orders = balanced_order(2, options.steps.repeats, r.options.workload.seed);
  for (int repeat = 0; repeat < options.steps.repeats; ++repeat)
    for (int index : orders[static_cast<std::size_t>(repeat)]) {
      const Turn& turn = turns[static_cast<std::size_t>(index)];
      measure(turn.workload, turn.tokens, options.steps, repeat, turn.m, watcher);
    }
  watcher.progress("");

  for (Measurement* m : {&r.baseline, &r.tuned})
    if (m->status == "ok") judge(*m);
  const auto base = figures(r.baseline), changed = figures(r.tuned);
  if (base && changed) {
    r.summary = compare(*base, *changed);
    r.decision = decide_baseline(*r.summary, *base, *changed);
  } else {
    r.decision = {"reject", base ? "tuned_not_measured" : "baseline_not_measured", ""};
  }
  return r;
}

}  // namespace spillway::decision
