// budget_decision.cpp - the operating point, the grid and the sensitivity: see budget_decision.h.
#include "decision/budget_decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "decision/source_record.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace {

using Axis = std::vector<std::optional<double>>;

constexpr double kPublishedCaps[] = {9500, 10000, 11200};
constexpr const char* kRelativeCaps[] = {"0.97x", "1.02x", "1.15x"};

struct Cap {
  double value;
  bool relative;  // to the baseline's peak
};
Cap read_cap(const std::string& text) {
  Cap cap{0, text.ends_with('x')};
  const char* const end = text.data() + text.size() - (cap.relative ? 1 : 0);
  const auto [read, error] = std::from_chars(text.data(), end, cap.value);
  if (error != std::errc() || read != end || !std::isfinite(cap.value) || cap.value <= 0)
    throw Error(fmt::format("caps '{}': MiB above 0, or a multiple of the baseline's peak like 1.02x", text));
  return cap;
}

// Of the candidates that the rules can compare, the one called baseline.
const Candidate* find_baseline(const std::vector<Candidate>& candidates) {
  for (const Candidate& c : candidates)
    if (c.name == "baseline" && summarize({c}, {}).measured_count == 1) return &c;
  return nullptr;
}

Axis sorted(Axis axis) {
  std::sort(axis.begin(), axis.end());
  axis.erase(std::unique(axis.begin(), axis.end()), axis.end());
  if (axis.empty()) axis.push_back(std::nullopt);
  return axis;
}

Axis cap_axis(const BudgetOptions& o, const Candidate* baseline) {
  std::vector<Cap> caps;
  for (const std::string& text : o.caps) caps.push_back(read_cap(text));
  if (caps.empty()) {
    const bool published = !baseline || (*baseline->peak_memory_mb >= std::begin(kPublishedCaps)[0] &&
                                         *baseline->peak_memory_mb <= std::end(kPublishedCaps)[-1]);
    if (published)
      for (const double mb : kPublishedCaps) caps.push_back({mb, false});
    else
      for (const char* text : kRelativeCaps) caps.push_back(read_cap(text));
  }
  Axis axis;
  for (const Cap& cap : caps) {
    if (!cap.relative) axis.emplace_back(cap.value);
    if (cap.relative && baseline) axis.emplace_back(round6(cap.value * *baseline->peak_memory_mb));
  }
  return sorted(axis);
}

Axis scaled(const std::vector<double>& factors, const std::optional<double>& of) {
  Axis axis;
  for (const double factor : factors)
    if (of) axis.emplace_back(round6(factor * *of));
  return sorted(axis);
}

Cell cell(const std::vector<Candidate>& candidates, const Budget& budget, const Thresholds& thresholds) {
  Cell c{budget, summarize(candidates, budget), {}};
  c.decision = decide(c.summary, thresholds, Wording::budget_75);
  return c;
}

Sensitivity sensitivity(const BudgetDecision& d) {
  Sensitivity s;
  const auto share = [&](const char* decision) {
    const auto n =
        std::count_if(d.grid.begin(), d.grid.end(), [&](const Cell& c) { return c.decision.decision == decision; });
    return round6(static_cast<double>(n) / static_cast<double>(d.grid.size()));
  };
  s.accept_share = share("accept");
  s.tune_share = share("tune");
  s.reject_share = share("reject");
  for (const Candidate& candidate : d.candidates) {
    const auto n = std::count_if(d.grid.begin(), d.grid.end(), [&](const Cell& c) {
      return c.decision.decision == "accept" && c.summary.best_candidate == candidate.name;
    });
    s.accepted_share.emplace_back(candidate.name, round6(static_cast<double>(n) / static_cast<double>(d.grid.size())));
  }

  // A limit that is absent lies beyond every value: no cap and no floor above them, no minimum below.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::tuple<const char*, std::optional<double> Budget::*, const Axis&, double> parameters[] = {
      {"memory_cap_mb", &Budget::memory_cap_mb, d.caps, kInfinity},
      {"min_samples_per_s", &Budget::min_samples_per_s, d.minima, -kInfinity},
      {"max_val_loss", &Budget::max_val_loss, d.floors, kInfinity}};
  for (const auto& [name, field, axis, without] : parameters) {
    const double own = (d.point.budget.*field).value_or(without);
    std::optional<double> below, above;
    for (const auto& value : axis) {
      if (value && *value < own) below = value;
      if (value && *value > own && !above) above = value;
    }
    for (const auto& [direction, value] : {std::pair("below", below), std::pair("above", above)}) {
      if (!value) continue;
      Budget budget = d.point.budget;
      budget.*field = value;
      Neighbour n{name, direction, cell(d.candidates, budget, d.thresholds), false};
      n.differs = n.cell.decision.decision != d.point.decision.decision;
      s.neighbours.push_back(n);
    }
  }
  const bool moves =
      std::any_of(s.neighbours.begin(), s.neighbours.end(), [](const Neighbour& n) { return n.differs; });
  s.conclusion = moves || (s.accept_share > 0 && s.accept_share < 0.5) ? "sensitive" : "stable";
  return s;
}

}  // namespace

void check_budget_options(const BudgetOptions& o) {
  const auto not_negative = [](const char* name, const std::optional<double>& value) {
    if (value && !(std::isfinite(*value) && *value >= 0))
      throw Error(fmt::format("{} {}: a finite number, 0 or more", name, *value));
  };
  not_negative("memory-cap-mb", o.memory_cap_mb);
  not_negative("min-samples-per-s", o.min_samples_per_s);
  not_negative("max-val-loss", o.max_val_loss);
  not_negative("saving-threshold-mb", o.saving_threshold_mb);
  not_negative("throughput-threshold", o.throughput_threshold);
  for (const std::string& cap : o.caps) read_cap(cap);
  for (const auto& [name, factors] :
       {std::pair("throughput-fractions", &o.throughput_fractions), std::pair("loss-margins", &o.loss_margins)}) {
    if (factors->empty()) throw Error(fmt::format("{}: at least one number", name));
    for (const double f : *factors)
      if (!std::isfinite(f) || f <= 0) throw Error(fmt::format("{} {}: numbers above 0", name, f));
  }
  const std::size_t caps = o.caps.empty() ? std::size(kPublishedCaps) : o.caps.size();
  if (caps > kMostCells || o.throughput_fractions.size() > kMostCells || o.loss_margins.size() > kMostCells ||
      caps * o.throughput_fractions.size() * o.loss_margins.size() > kMostCells)
    throw Error(fmt::format("a grid of {} x {} x {} cells: at most {}", caps, o.throughput_fractions.size(),
                            o.loss_margins.size(), kMostCells));
}

BudgetDecision decide_budget(const nlohmann::ordered_json& record, const std::string& name,
                             const BudgetOptions& options) {
  check_budget_options(options);
  BudgetDecision d;
  d.options = options;
  for (Candidate& c : record_candidates(record, name))
    if (c.status == "ok") d.candidates.push_back(std::move(c));
  d.thresholds = record_thresholds(record);
  if (options.saving_threshold_mb) d.thresholds.saving_mb = *options.saving_threshold_mb;
  if (options.throughput_threshold) d.thresholds.throughput_ratio = *options.throughput_threshold;

  Budget point = record_budget(record);
  if (!point.max_val_loss) point.max_val_loss = default_quality_floor(d.candidates);
  if (options.memory_cap_mb) point.memory_cap_mb = options.memory_cap_mb;
  if (options.min_samples_per_s) point.min_samples_per_s = options.min_samples_per_s;
  if (options.max_val_loss) point.max_val_loss = options.max_val_loss;
  d.point = cell(d.candidates, point, d.thresholds);

  const Candidate* baseline = find_baseline(d.candidates);
  d.caps = cap_axis(options, baseline);
  d.minima = scaled(options.throughput_fractions, baseline ? baseline->samples_per_s : std::nullopt);
  d.floors = scaled(options.loss_margins, !baseline             ? std::nullopt
                                          : baseline->eval_loss ? baseline->eval_loss
                                                                : baseline->val_loss);
  for (const auto& cap : d.caps)
    for (const auto& minimum : d.minima)
      for (const auto& floor : d.floors) d.grid.push_back(cell(d.candidates, {cap, minimum, floor}, d.thresholds));
  d.sensitivity = sensitivity(d);
  return d;
}

}  // namespace spillway::decision
