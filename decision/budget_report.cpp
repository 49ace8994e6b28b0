// budget_report.cpp - experiment 75 for people: the grid as a table, the sensitivity, and in a sentence why the
// decision is what it is and what would change it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "decision/budget_decision.h"
#include "decision/table.h"
#include "model/printable.h"

namespace spillway::decision {
namespace {

std::string limit(const std::optional<double>& value) {
  return value ? fmt::format("{:.8g}", *value) : std::string("none");
}

std::string outcome(const Cell& c) {
  return fmt::format("{} {}", c.decision.decision,
                     c.summary.best_candidate ? model::printable(*c.summary.best_candidate) : "-");
}

// Rows are caps and minima, columns floors. The operating point is marked where the grid has it, else it stands below
// the grid in a row of its own.
std::string grid_table(const BudgetDecision& d) {
  const Budget& p = d.point.budget;
  std::vector<std::string> head = {"cap MiB", "at least samples/s"};
  for (const auto& floor : d.floors) head.push_back(fmt::format("loss at most {}", limit(floor)));
  Table t(head);
  bool marked = false;
  std::size_t i = 0;
  for (const auto& cap : d.caps)
    for (const auto& minimum : d.minima) {
      std::vector<std::string> row = {limit(cap), limit(minimum)};
      for (std::size_t f = 0; f < d.floors.size(); ++f, ++i) {
        const bool here = cap == p.memory_cap_mb && minimum == p.min_samples_per_s && d.floors[f] == p.max_val_loss;
        marked |= here;
        row.push_back(outcome(d.grid[i]) + (here ? " *" : ""));
      }
      t.row(row);
    }
  if (!marked) {
    std::vector<std::string> row = {limit(p.memory_cap_mb), limit(p.min_samples_per_s)};
    const auto column = std::find(d.floors.begin(), d.floors.end(), p.max_val_loss);
    row.resize(head.size());
    if (column != d.floors.end())
      row[2 + static_cast<std::size_t>(column - d.floors.begin())] = outcome(d.point) + " *";
    else
      row[2] = fmt::format("{} * (at most {})", outcome(d.point), limit(p.max_val_loss));
    t.row(row);
  }
  return t.text();
}

}  // namespace

std::string why(const Cell& point, const std::vector<Candidate>& candidates, const Thresholds& t) {
  const Summary& s = point.summary;
  const std::string best = s.best_candidate ? model::printable(*s.best_candidate) : "";
  const double saving = s.memory_saving_mb;
  if (!s.best_candidate) {
    if (s.measured_count == 0) return "no candidate was measured: there is nothing to choose from.";
    std::optional<double> least;  // the smallest peak of those that meet the other two limits
    Budget without_cap = point.budget;
    without_cap.memory_cap_mb.reset();
    const Summary roomy = summarize(candidates, without_cap);
    if (roomy.best_peak_memory_mb) least = roomy.best_peak_memory_mb;
    if (least)
      return fmt::format("nothing fits under {} MiB at that speed and loss; a cap of {} MiB would let {} in.",
                         limit(point.budget.memory_cap_mb), *least, model::printable(*roomy.best_candidate));
    return fmt::format(
        "no candidate reaches {} samples/s at a loss of at most {}, whatever the cap; a lower minimum or a higher "
        "floor would let one in.",
        limit(point.budget.min_samples_per_s), limit(point.budget.max_val_loss));
  }
  const std::string ratio = s.throughput_ratio ? fmt::format("{}", *s.throughput_ratio) : "an unknown share";
  const bool slow = s.throughput_ratio && *s.throughput_ratio < t.throughput_ratio;
  if (point.decision.decision == "accept")
    return fmt::format(
        "{} fits and saves {} MiB, at least the {} that count, at {} of the baseline's throughput, at least {}; a "
        "saving "
        "threshold above the one, or a throughput threshold above the other, would undo it.",
        best, saving, t.saving_mb, ratio, t.throughput_ratio);
  if (s.quality_failed_count > 0)
    return fmt::format(
        "{} of {} measured candidates have a loss above {}, and what fits ({}) saves {} MiB, which does not accept by "
        "itself; a higher floor, or a candidate that trains better, would change it.",
        s.quality_failed_count, s.measured_count, limit(point.budget.max_val_loss), best, saving);
  if (!s.baseline_peak_memory_mb)
    return fmt::format(
        "{} fits, but there is no measured baseline to save against; a baseline that runs would change it.", best);
  if (saving < t.saving_mb && best == "baseline")
    return "the baseline itself is the smallest that fits; a lower minimum of samples/s may let a smaller one in.";
  if (saving < t.saving_mb)
    return fmt::format(
        "{} saves {} MiB, below the {} MiB that count as meaningful; a workload on which it saves more, or a saving "
        "threshold of {} MiB or less{}, would change it.",
        best, saving, t.saving_mb, saving,
        slow ? fmt::format(" together with a throughput threshold of {} or less", ratio) : "");
  if (slow)
    return fmt::format(
        "{} saves {} MiB but keeps {} of the baseline's throughput, below the {} asked for; a faster strategy, or a "
        "throughput threshold of {} or less, would change it.",
        best, saving, ratio, t.throughput_ratio, ratio);
  return "the baseline is still the best that fits; a tighter cap would change it.";
}

std::string budget_report(const BudgetDecision& d) {
  const Budget& p = d.point.budget;
  std::string text = fmt::format(
      "operating point: {}, {}, {}\n\n",
      p.memory_cap_mb ? fmt::format("at most {} MiB", limit(p.memory_cap_mb)) : "no memory cap",
      p.min_samples_per_s ? fmt::format("at least {} samples/s", limit(p.min_samples_per_s))
                          : "no minimum of samples/s",
      p.max_val_loss ? fmt::format("evaluation loss at most {}", limit(p.max_val_loss)) : "no quality floor");
  text += grid_table(d);
  text += "(decision and smallest candidate that fits; * the operating point)\n\n";
  const Sensitivity& s = d.sensitivity;
  text += fmt::format("grid: accept {:.0f}%, tune {:.0f}%, reject {:.0f}% of {} cells; ", 100 * s.accept_share,
                      100 * s.tune_share, 100 * s.reject_share, d.grid.size());
  const auto differing =
      std::count_if(s.neighbours.begin(), s.neighbours.end(), [](const Neighbour& n) { return n.differs; });
  text += fmt::format("{} of {} neighbours decide otherwise: {}\n", differing, s.neighbours.size(), s.conclusion);
  for (const Neighbour& n : s.neighbours)
    if (n.differs) text += fmt::format("  {} {} the point: {}\n", n.parameter, n.direction, outcome(n.cell));
  text += fmt::format("decision: {} ({}); next: {}\n", d.point.decision.decision, d.point.decision.reason,
                      d.point.decision.next_action);
  text += "why: " + why(d.point, d.candidates, d.thresholds) + "\n";
  return text;
}

}  // namespace spillway::decision
