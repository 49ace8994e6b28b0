// source_record.h - a 76 record, ours or another tool's, as the rules see it: candidates, budget, thresholds.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "decision/rules.h"

namespace spillway::decision {

// Its candidates: name (else strategy_<index>), status (else "ok"), peak_memory_mb (else peak_mem_mb), samples_per_s,
// eval_loss, val_loss. Null is absent; a value that is no number is NaN, which the rules count as invalid. Error,
// naming `name`: no array of candidates, an entry that is no object, a record of another kind.
std::vector<Candidate> record_candidates(const nlohmann::ordered_json& record, const std::string& name);
// budget.memory_cap_mb, budget.min_samples_per_s, quality_floor.max_val_loss.
Budget record_budget(const nlohmann::ordered_json& record);
// thresholds.saving_mb and throughput_ratio; the protocol's where it has none.
Thresholds record_thresholds(const nlohmann::ordered_json& record);

}  // namespace spillway::decision
