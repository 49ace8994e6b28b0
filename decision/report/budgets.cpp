// budgets.cpp - 75's grid: how the decision falls under other budgets, and whether one nearby decides otherwise.
#include <fmt/format.h>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using profiler::svg::escape;
namespace {

// The cell of three thresholds; nowhere when the grid has none.
Node cell_at(const Node& grid, const Node& cap, const Node& minimum, const Node& floor) {
  for (const Node& cell : grid.children())
    if (cell["memory_cap_mb"].json() == cap.json() && cell["min_samples_per_s"].json() == minimum.json() &&
        cell["max_val_loss"].json() == floor.json())
      return cell;
  return {};
}

std::string cell(const Node& c) {
  const std::string decision = c["decision"].text();
  const std::string best = c["best_candidate"].text();
  const std::string css = decision == "accept" || decision == "tune" || decision == "reject" ? decision : "other";
  return fmt::format("<td class=\"cell {}\" title=\"{}\">{}<br><span class=\"best\">{}</span></td>", css,
                     html::words(c["reason"].text()), html::chip(decision), best.empty() ? "none" : escape(best));
}

std::string block(const Node& budget, const Node& floor) {
  const Node axes = budget["grid_axes"];
  std::string head = "<th scope=\"col\" class=\"corner\">samples/s ↓<br>MiB →</th>";
  for (const Node& cap : axes["memory_cap_mb"].children())
    head += fmt::format("<th scope=\"col\">≤ {}</th>", figure_bare(cap, Unit::mebibytes));
  std::string rows;
  for (const Node& minimum : axes["min_samples_per_s"].children()) {
    rows += fmt::format("<tr><th scope=\"row\">≥ {}</th>", figure_bare(minimum, Unit::per_second));
    for (const Node& cap : axes["memory_cap_mb"].children()) rows += cell(cell_at(budget["grid"], cap, minimum, floor));
    rows += "</tr>\n";
  }
  return fmt::format(
      "<div><h4>evaluation loss at most {}</h4><div class=\"scroll\" tabindex=\"0\"><table class=\"grid75\">"
      "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div></div>\n",
      figure(floor, Unit::loss), head, rows);
}

const char* axis_name(const std::string& parameter) {
  return parameter == "memory_cap_mb"       ? "memory cap"
         : parameter == "min_samples_per_s" ? "minimum of samples/s"
         : parameter == "max_val_loss"      ? "loss floor"
                                            : "another parameter";
}

std::string neighbours(const Node& sensitivity) {
  std::string rows;
  for (const Node& n : sensitivity["neighbours"].children())
    rows += fmt::format("<tr><th scope=\"row\">{}, {}</th>{}{}{}<td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        axis_name(n["parameter"].text()), html::words(n["direction"].text()),
                        figure_cell(n["memory_cap_mb"], Unit::mebibytes),
                        figure_cell(n["min_samples_per_s"], Unit::per_second),
                        figure_cell(n["max_val_loss"], Unit::loss), html::chip(n["decision"].text()),
                        html::text(n["best_candidate"]), n["differs"].is_true() ? "<b>≠ differs</b>" : "= the same");
  if (rows.empty()) return html::note("The operating point has no neighbours.");
  return html::table({"one step in",
                      "cap<br>MiB",
                      "minimum<br>samples/s",
                      "loss floor",
                      {"decision", true},
                      {"best", true},
                      {"operating point", true}},
                     rows, "Neighbours of the operating point");
}

std::string shares(const Node& sensitivity) {
  std::string rows;
  for (const Node& s : sensitivity["accepted_shares"].children())
    rows += fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>\n", escape(s.key()), figure_cell(s, Unit::share));
  return html::table({"strategy", "cells that accept it<br>%"}, rows, "Shares of cells that accept each strategy");
}

}  // namespace

std::string budgets(const Document& d) {
  if (!d.budget.present())
    return html::section("budgets", "Under other budgets", "",
                         html::note("The 75 record is missing: the decision was not tried under other budgets."));
  const Node s = d.budget["sensitivity"], shares_of = s["decision_shares"];
  const std::string conclusion = s["conclusion"].text();
  std::string lead =
      fmt::format("<b>{}</b>. Of the grid’s budgets {} accept, {} tune, {} reject.",
                  conclusion == "stable" ? "Stable: no budget nearby decides otherwise"
                  : conclusion == "sensitive"
                      ? "Sensitive: a budget nearby decides otherwise, or fewer than half of those that could accept do"
                      : html::words(conclusion),
                  figure(shares_of["accept"], Unit::share), figure(shares_of["tune"], Unit::share),
                  figure(shares_of["reject"], Unit::share));
  std::string grid =
      "<p class=\"small soft\">Columns: peak memory at most, MiB. Rows: throughput at least, samples/s. In each cell "
      "the decision and the best "
      "strategy.</p>\n<div class=\"blocks\">";
  for (const Node& floor : d.budget["grid_axes"]["max_val_loss"].children()) grid += block(d.budget, floor);
  return html::section("budgets", "Under other budgets", lead,
                       grid + "</div>\n<h3>Around the operating point</h3>\n" + neighbours(s) +
                           html::details("Which strategies are accepted", shares(s)));
}

}  // namespace spillway::decision::sections
