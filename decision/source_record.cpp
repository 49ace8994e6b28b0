// source_record.cpp - see source_record.h.
#include "decision/source_record.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "decision/json_file.h"
#include "runtime/error.h"

namespace spillway::decision {
using Json = nlohmann::ordered_json;

namespace {

std::optional<double> figure(const Json& candidate, const char* key) {
  const Json value = value_at(candidate, key);
  if (value.is_null()) return std::nullopt;
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::vector<Candidate> record_candidates(const Json& record, const std::string& name) {
  if (text_at(record, "schema_version"))
    throw Error(fmt::format("{}: a sidecar or another derived record; give a raw 76 record", name));
  if (text_at(record, "stage") == "memory_budget_decision")
    throw Error(fmt::format("{}: a 75 record; give the 76 record that it decided on", name));
  const Json list = value_at(record, "candidates");
  if (!list.is_array()) throw Error(fmt::format("{}: candidates is no array: give a 76 record", name));
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& c = list[i];
    if (!c.is_object()) throw Error(fmt::format("{}: candidates[{}] is no object", name, i));
    const auto peak = figure(c, "peak_memory_mb");
    candidates.push_back({.name = text_at(c, "name").value_or(fmt::format("strategy_{}", i)),
                          .status = text_at(c, "status").value_or("ok"),
                          .peak_memory_mb = peak ? peak : figure(c, "peak_mem_mb"),
                          .samples_per_s = figure(c, "samples_per_s"),
                          .eval_loss = figure(c, "eval_loss"),
                          .val_loss = figure(c, "val_loss")});
  }
  return candidates;
}

Budget record_budget(const Json& record) {
  const Json budget = value_at(record, "budget");
  return {.memory_cap_mb = number_at(budget, "memory_cap_mb"),
          .min_samples_per_s = number_at(budget, "min_samples_per_s"),
          .max_val_loss = number_at(value_at(record, "quality_floor"), "max_val_loss")};
}

Thresholds record_thresholds(const Json& record) {
  const Json thresholds = value_at(record, "thresholds");
  const Thresholds standard;
  return {.saving_mb = number_at(thresholds, "saving_mb").value_or(standard.saving_mb),
          .throughput_ratio = number_at(thresholds, "throughput_ratio").value_or(standard.throughput_ratio)};
}

}  // namespace spillway::decision
