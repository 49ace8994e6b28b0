// operators.cpp - the kernels by the time that they take, against what their launches declared.
#include <fmt/format.h>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using profiler::svg::escape;
namespace {

std::string table(const Node& profile, const std::string& label) {
  std::string rows;
  for (const Node& op : profile["top_operators"].children()) {
    const double share = std::min(1.0, std::max(0.0, op["share"].number().value_or(0)));
    rows += fmt::format(
        "<tr><th scope=\"row\"><span class=\"opname\">{}</span></th>{}{}{}<td class=\"meter\"><svg "
        "width=\"80\" height=\"10\" aria-hidden=\"true\"><rect class=\"bar\" width=\"{:.1f}\" "
        "height=\"10\"/></svg></td>{}{}{}{}</tr>\n",
        escape(op["name"].text()), figure_cell(op["calls"], Unit::count),
        figure_cell(op["total_ms"], Unit::milliseconds), figure_cell(op["share"], Unit::share), 80 * share,
        figure_cell(op["flops"], Unit::flops), figure_cell(op["bytes"], Unit::bytes),
        figure_cell(op["achieved_tflops"], Unit::tflops), figure_cell(op["achieved_gbs"], Unit::gbs));
  }
  if (rows.empty()) return html::note("No operators are recorded.");
  return html::table({"operator", "calls", "total<br>ms", "share<br>%", "", "declared<br>GFLOP", "declared<br>MiB",
                      "achieved<br>TFLOP/s", "achieved<br>GB/s"},
                     rows, label);
}

}  // namespace

std::string operators(const Document& d) {
  if (!d.profiling["profile"].present())
    return html::section("operators", "Top operators", "",
                         html::note("No profile: the 74 record is missing or holds none."));
  return html::section("operators", "Top operators", "Of the tuned candidate, over all profiled steps.",
                       table(d.profiling["profile"], "Top operators of the tuned candidate") +
                           html::details("The baseline’s operators",
                                         table(d.profiling["baseline_profile"], "Top operators of the baseline")));
}

}  // namespace spillway::decision::sections
