// budget_decision.h - experiment 75 measures nothing: it asks how the decision of a 76 record would fall under other
// budgets. The operating point is one budget; around it stands a grid of caps, throughput floors and quality floors;
// and the sensitivity says whether the decision is the operating point's own or holds nearby too.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decision/rules.h"

namespace spillway::decision {

struct BudgetOptions {
  // The operating point; what is absent comes from the record.
  std::optional<double> memory_cap_mb, min_samples_per_s, max_val_loss;
  // MiB, or relative to the baseline's peak with the suffix x: "9500", "1.02x". Empty: 9500, 10000 and 11200 where
  // those lie around the baseline's peak, as on the workload that they come from; else 0.97x, 1.02x and 1.15x.
  std::vector<std::string> caps;
  std::vector<double> throughput_fractions{0.5, 0.7, 0.9};  // of the baseline's samples/s
  std::vector<double> loss_margins{1.01, 1.02, 1.05};       // of the baseline's evaluation loss
  std::optional<double> saving_threshold_mb, throughput_threshold;
};
// Error when a list is empty, a number is not finite or not above 0, a cap cannot be read, or the grid has more than
// kMostCells cells.
void check_budget_options(const BudgetOptions& options);
inline constexpr std::size_t kMostCells = 10'000;

struct Cell {
  Budget budget;
  Summary summary;
  Decision decision;
};

struct Neighbour {
  std::string parameter;  // "memory_cap_mb", "min_samples_per_s", "max_val_loss"
  std::string direction;  // "below" or "above": of the operating point
  Cell cell;
  bool differs = false;  // from the operating point's decision
};

struct Sensitivity {
  double accept_share = 0, tune_share = 0, reject_share = 0;   // of the cells
  std::vector<std::pair<std::string, double>> accepted_share;  // of the cells, a candidate each
  // The operating point with one parameter moved to the grid's next value below or above its own.
  std::vector<Neighbour> neighbours;
  // "sensitive" when a neighbour decides otherwise, or when some cells accept but fewer than half; else "stable".
  std::string conclusion;
};

struct BudgetDecision {
  BudgetOptions options;
  Thresholds thresholds;
  std::vector<Candidate> candidates;  // the record's with status ok
  Cell point;                         // the operating point
  // The grid's axes. Where there is no baseline to multiply, an axis has the one value "no limit".
  std::vector<std::optional<double>> caps, minima, floors;
  std::vector<Cell> grid;  // caps outermost, floors innermost
  Sensitivity sensitivity;
};

// `name` is what messages call the record. Error when it has no candidates.
BudgetDecision decide_budget(const nlohmann::ordered_json& record_76, const std::string& name,
                             const BudgetOptions& options);

// ---- as a record and for people -------------------------------------------------------------------------------------

// What follows from the record and the options alone: budget, quality_floor, thresholds, grid_axes, summary, decision,
// grid, sensitivity.
nlohmann::ordered_json budget_fields(const BudgetDecision& decision);
// The options that a 75 record was made with, for making it again.
BudgetOptions recorded_options(const nlohmann::ordered_json& record_75);
// The 75 raw record of PROTOCOL.md. `source`: see file_identity.
nlohmann::ordered_json budget_record(const BudgetDecision& decision, const nlohmann::ordered_json& record_76,
                                     const nlohmann::ordered_json& source, const std::string& command_line);
// A file as another record refers to it: name, bytes, and the FNV-1a hash (64 bits) of its contents, which tells an
// edited record from the one that was read. Error when it cannot be read.
nlohmann::ordered_json file_identity(const std::string& path);

// The grid as a table with the operating point, and why the decision is what it is and what would change it.
std::string budget_report(const BudgetDecision& decision);
// The last of those: one or two sentences.
std::string why(const Cell& point, const std::vector<Candidate>& candidates, const Thresholds& thresholds);

}  // namespace spillway::decision
