// rules_json.cpp - see rules_json.h.
#include "decision/rules_json.h"

#include <nlohmann/json.hpp>

#include "decision/run_record.h"

namespace spillway::decision {
using Json = nlohmann::ordered_json;

Json summary_json(const Summary& s) {
  // From the peaks: the saving itself is rounded to six decimals of a MiB, which can be a byte off.
  std::optional<double> saving = s.memory_saving_mb;
  if (s.baseline_peak_memory_mb && s.best_peak_memory_mb) saving = *s.baseline_peak_memory_mb - *s.best_peak_memory_mb;
  return {{"candidate_count", s.candidate_count},
          {"measured_count", s.measured_count},
          {"oom_count", s.oom_count},
          {"invalid_count", s.invalid_count},
          {"quality_failed_count", s.quality_failed_count},
          {"feasible_names", s.feasible_names},
          {"best_candidate", s.best_candidate ? Json(*s.best_candidate) : Json(nullptr)},
          {"baseline_peak_memory_mb", number_or_null(s.baseline_peak_memory_mb)},
          {"baseline_peak_memory_bytes", bytes_or_null(s.baseline_peak_memory_mb)},
          {"best_peak_memory_mb", number_or_null(s.best_peak_memory_mb)},
          {"best_peak_memory_bytes", bytes_or_null(s.best_peak_memory_mb)},
          {"memory_saving_mb", s.memory_saving_mb},
          {"memory_saving_bytes", bytes_or_null(saving)},
          {"throughput_ratio", number_or_null(s.throughput_ratio)}};
}

Json decision_json(const Decision& d) {
  return {{"decision", d.decision}, {"reason", d.reason}, {"next_action", d.next_action}};
}

Json budget_json(const Budget& b) {
  return {{"memory_cap_mb", number_or_null(b.memory_cap_mb)},
          {"memory_cap_bytes", bytes_or_null(b.memory_cap_mb)},
          {"min_samples_per_s", number_or_null(b.min_samples_per_s)}};
}

Json quality_floor_json(const Budget& b) {
  return {{"max_val_loss", number_or_null(b.max_val_loss)}};
}

Json thresholds_json(const Thresholds& t) {
  return {{"saving_mb", t.saving_mb},
          {"saving_bytes", bytes_or_null(t.saving_mb)},
          {"throughput_ratio", t.throughput_ratio}};
}

}  // namespace spillway::decision
