// profiling_closeout.cpp - the rules of experiment 74, as pure functions.
#include "decision/profiling_closeout.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "decision/json_file.h"
#include "decision/source_record.h"
#include "runtime/error.h"

namespace spillway::decision {
using Json = nlohmann::ordered_json;

bool explains(double measured_ms, double profiled_ms, double noise_ms, const CloseoutThresholds& thresholds) {
  if (std::abs(measured_ms) <= noise_ms && std::abs(profiled_ms) <= noise_ms) return true;
  return std::abs(profiled_ms - measured_ms) <= thresholds.explained_within * std::abs(measured_ms);
}

double noise_of_difference(const std::vector<double>& a, const std::vector<double>& b) {
  // The standard error of a median of normal samples, with their spread estimated by the MAD.
  constexpr double kMedianError = 1.2533, kMadToSigma = 1.4826;
  double squares = 0;
  for (const std::vector<double>* times : {&a, &b}) {
    const double error =
        kMedianError * kMadToSigma * median_absolute_deviation(*times) / std::sqrt(static_cast<double>(times->size()));
    squares += error * error;
  }
  return 2 * std::sqrt(squares);
}

Decision decide_closeout(const CloseoutFigures& f, const CloseoutThresholds& t) {
  const std::string measure_again = "profile_again_with_the_device_to_itself";
  if (!f.profiled) return {"tune", "profiling_evidence_missing", "profile_where_records_are_available"};
  if (!f.loss_equal) return {"reject", "losses_differ", "find_what_changes_the_arithmetic"};
  if (!f.profile_complete) return {"tune", "profiling_evidence_partial", measure_again};
  if (f.time_delta_ms >= t.time_delta_ms && f.samples_per_s_delta >= t.samples_per_s_delta)
    return {"accept", "end_to_end_gain_meets_thresholds", "promote_to_training_run"};
  if (f.accepted_by_75 && f.explained)
    return {"accept", "memory_saving_accepted_and_time_cost_explained", "promote_to_training_run"};
  if (f.accepted_by_75) return {"tune", "time_cost_not_explained_by_profile", measure_again};
  if (f.time_delta_ms > 0 || f.samples_per_s_delta > 0 || f.memory_delta_bytes > 0)
    return {"tune", "gain_below_threshold", "apply_the_optimization_of_the_bottleneck"};
  return {"reject", "no_end_to_end_gain", "keep_the_baseline"};
}

TunedChoice choose_tuned(const Json& record_76, const Json& record_75) {
  const auto best_of = [](const Json& record) { return text_at(value_at(record, "summary"), "best_candidate"); };
  const bool accepted = text_at(value_at(record_75, "decision"), "decision") == "accept";
  const auto best_75 = best_of(record_75);
  if (best_75 && *best_75 != "baseline") return {*best_75, "the best candidate of 75", accepted};
  const std::string why_not = best_75 ? "75's best is the baseline" : "75 finds nothing feasible";
  const auto best_76 = best_of(record_76);
  if (best_76 && *best_76 != "baseline") return {*best_76, fmt::format("{}: the best candidate of 76", why_not)};
  const Candidate* smallest = nullptr;
  const std::vector<Candidate> candidates = record_candidates(record_76, "the 76 record");
  for (const Candidate& c : candidates)
    if (c.status == "ok" && c.name != "baseline" && c.peak_memory_mb &&
        (!smallest || *c.peak_memory_mb < *smallest->peak_memory_mb))
      smallest = &c;
  if (!smallest) throw Error("the 76 record has no candidate but the baseline: there is nothing to profile against it");
  return {smallest->name, fmt::format("{}, as in 76: the candidate with the smallest peak", why_not)};
}

}  // namespace spillway::decision
