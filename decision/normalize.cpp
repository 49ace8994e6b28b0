// normalize.cpp - see normalize.h. Reads as PROTOCOL.md's section on the sidecar does, field by field.
#include "decision/normalize.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "decision/json_file.h"
#include "decision/rules.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace {
using Json = nlohmann::ordered_json;

// The first of the keys that has a value.
Json first_of(const Json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (Json value = value_at(object, key); !value.is_null()) return value;
  return nullptr;
}

Json or_empty(const Json& raw, const char* key) {
  Json value = value_at(raw, key);
  return value.is_null() ? Json::object() : value;
}

Json config(const Json& raw) {
  const Json c = value_at(raw, "config");
  return {{"model", first_of(c, {"model_id", "model"})},
          {"device", value_at(c, "device")},
          {"torch", value_at(c, "torch")},
          {"cuda", first_of(c, {"torch_cuda", "cuda"})},
          {"dtype", first_of(c, {"amp_dtype", "dtype"})},
          {"batch_size", value_at(c, "batch_size")},
          {"seq_len", value_at(c, "seq_len")},
          {"warmup", value_at(c, "warmup")},
          {"iters", value_at(c, "iters")},
          {"workload", value_at(c, "workload")}};
}

// Candidates by name, as their records have them: of a 73 record its two arms.
std::vector<std::pair<std::string, Json>> raw_candidates(const Json& raw, const std::string& source) {
  std::vector<std::pair<std::string, Json>> list;
  if (const Json candidates = value_at(raw, "candidates"); candidates.is_array()) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!candidates[i].is_object()) throw Error(fmt::format("{}: candidates[{}] is no object", source, i));
      list.emplace_back(text_at(candidates[i], "name").value_or(fmt::format("strategy_{}", i)), candidates[i]);
    }
    return list;
  }
  for (const char* arm : {"baseline", "tuned"}) {
    const Json fields = value_at(raw, arm);
    if (!fields.is_object())
      throw Error(fmt::format("{}: neither candidates (76, 75) nor a baseline and a tuned arm (73)", source));
    list.emplace_back(arm, fields);
  }
  return list;
}

Json peak_of(const Json& candidate) {
  return first_of(candidate, {"peak_memory_mb", "peak_mem_mb"});
}

Json candidate(const std::string& name, const Json& raw, const Json& baseline) {
  const std::string status = text_at(raw, "status").value_or("ok");
  const Json peak = peak_of(raw), base_peak = peak_of(baseline);
  const auto speed = number_at(raw, "samples_per_s"), base_speed = number_at(baseline, "samples_per_s");
  Json saving, ratio;  // null unless both figures are there
  if (peak.is_number() && base_peak.is_number()) saving = round6(base_peak.get<double>() - peak.get<double>());
  if (speed && base_speed && *base_speed != 0) ratio = round6(*speed / *base_speed);
  Json val_loss = first_of(raw, {"val_loss", "eval_loss"});
  return {{"name", name},
          {"status", status},
          {"metrics",
           {{"step_time_ms", value_at(raw, "step_time_ms")},
            {"samples_per_s", value_at(raw, "samples_per_s")},
            {"peak_memory_mb", peak},
            {"peak_reserved_mb", value_at(raw, "peak_reserved_mb")},
            {"memory_saving_mb", saving},
            {"throughput_ratio", ratio},
            {"oom", status == "oom" ? Json(true) : value_at(raw, "oom")}}},
          {"quality",
           {{"loss", value_at(raw, "loss")},
            {"eval_loss", value_at(raw, "eval_loss")},
            {"val_loss", val_loss},
            {"quality_status", value_at(raw, "quality_status")}}},
          {"legacy_fields", raw}};
}

}  // namespace

Json normalize(const Json& raw, const std::string& legacy_source) {
  if (!raw.is_object()) throw Error(fmt::format("{}: a record is a JSON object", legacy_source));
  if (text_at(raw, "schema_version") == kSidecarSchema)
    throw Error(fmt::format("{}: a sidecar already; give the raw record", legacy_source));
  const auto list = raw_candidates(raw, legacy_source);
  Json baseline;
  for (const auto& [name, fields] : list)
    if (name == "baseline" && baseline.is_null()) baseline = fields;
  const std::string stem = std::filesystem::path(legacy_source).stem().string();

  Json sidecar;
  sidecar["schema_version"] = kSidecarSchema;
  sidecar["project"] = stem.substr(0, stem.find('_'));
  sidecar["stage"] = value_at(raw, "stage");
  sidecar["config"] = config(raw);
  sidecar["budget"] = or_empty(raw, "budget");
  sidecar["quality_floor"] = or_empty(raw, "quality_floor");
  sidecar["candidates"] = Json::array();
  for (const auto& [name, fields] : list) sidecar["candidates"].push_back(candidate(name, fields, baseline));
  sidecar["summary"] = or_empty(raw, "summary");
  const Json decision = value_at(raw, "decision");
  sidecar["decision"] = decision.is_null() ? Json{{"decision", "not_evaluated"}} : decision;
  sidecar["legacy_source"] = legacy_source;
  if (raw.contains("source_baseline")) sidecar["source_baseline"] = raw["source_baseline"];
  return sidecar;
}

std::string sidecar_name(const std::string& record_name) {
  return std::filesystem::path(record_name).stem().string() + "_v1.json";
}

}  // namespace spillway::decision
