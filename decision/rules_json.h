// rules_json.h - what the rules conclude, in the shape in which every record has it.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "decision/rules.h"

namespace spillway::decision {

nlohmann::ordered_json summary_json(const Summary& summary);
nlohmann::ordered_json decision_json(const Decision& decision);
nlohmann::ordered_json budget_json(const Budget& budget);  // of `budget`: cap and minimum
nlohmann::ordered_json quality_floor_json(const Budget& budget);
nlohmann::ordered_json thresholds_json(const Thresholds& thresholds);

}  // namespace spillway::decision
