// normalize.h - the sidecar of PROTOCOL.md, schema training-memory-benchmark/v1: one shape for the records of 73, 76
// and 75, ours and older ones of other tools, so that they can be compared. Values are copied, never changed.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace spillway::decision {

inline constexpr const char* kSidecarSchema = "training-memory-benchmark/v1";

// `legacy_source` is the path of the raw record as given. Error when it is no object, or has neither candidates nor a
// baseline and a tuned arm.
nlohmann::ordered_json normalize(const nlohmann::ordered_json& raw, const std::string& legacy_source);
// "76_host_memory_v1.json" from "76_host_memory.json".
std::string sidecar_name(const std::string& record_name);

}  // namespace spillway::decision
