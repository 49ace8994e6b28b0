// evidence.cpp - how far the profile can be trusted: whether it is whole, what taking it cost, and whether the runs
// that it explains agree.
#include <fmt/format.h>

#include <array>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using profiler::svg::escape;
namespace {

struct Line {
  const char *name, *key;
  Unit unit;
};

std::string rows(const Node& baseline, const Node& tuned, const auto& lines) {
  std::string out;
  for (const Line& line : lines)
    out += fmt::format("<tr><th scope=\"row\">{}</th>{}{}</tr>\n", line.name,
                       figure_cell(baseline[line.key], line.unit), figure_cell(tuned[line.key], line.unit));
  return out;
}

// One figure, or one each of several candidates.
std::string spread(const Node& node) {
  if (!node.json().is_object()) return figure(node, Unit::share);
  std::string all;
  for (const Node& of : node.children())
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", escape(of.key()), figure(of, Unit::share));
  return all;
}

std::string yes(const char* claim, const Node& node) {
  const bool known = node.present();
  return fmt::format("<li><b>{}</b> {}</li>", !known ? "–" : node.is_true() ? "✓" : "✕", claim);
}

}  // namespace

std::string evidence(const Document& d) {
  const Node baseline = d.profiling["baseline_profile"], tuned = d.profiling["profile"], v = d.profiling["validation"];
  if (!tuned.present())
    return html::section("evidence", "How far to trust it", "",
                         html::note("No profile: the 74 record is missing or holds none."));
  constexpr std::array<Line, 5> kCompleteness = {{{"records", "records", Unit::count},
                                                  {"dropped", "dropped", Unit::count},
                                                  {"without a time", "zero_timestamps", Unit::count},
                                                  {"outside of the profile", "out_of_range", Unit::count},
                                                  {"unattributed", "unattributed", Unit::count}}};
  constexpr std::array<Line, 7> kShares = {{{"kernels ran, % of the step", "compute_ratio", Unit::share},
                                            {"copies ran", "memory_ratio", Unit::share},
                                            {"devices talked", "communication_ratio", Unit::share},
                                            {"copies ran alone", "exposed_transfer_ratio", Unit::share},
                                            {"nothing ran", "idle_ratio", Unit::share},
                                            {"… waiting for the host", "idle_host_ratio", Unit::share},
                                            {"copies behind kernels", "overlap_ratio", Unit::share}}};
  const std::string body =
      "<ul class=\"claims\">" + yes("the same workload in both", v["same_workload"]) +
      yes("equal losses", v["loss_equal"]) + yes("the profile is complete", v["profile_complete"]) + "</ul>\n" +
      fmt::format(
          "<p>{} repeats, spread {}. Profiling made a tuned step {} as long, the baseline’s {}. Taken by {}.</p>\n",
          figure(v["repeats"], Unit::count), spread(v["spread"]), figure(tuned["overhead"], Unit::ratio),
          figure(baseline["overhead"], Unit::ratio), html::text(tuned["tool"])) +
      "<div class=\"pair\"><div><h3>Is the profile whole</h3>\n" +
      html::table({"records", "baseline", "tuned"},
                  rows(baseline["completeness"], tuned["completeness"], kCompleteness),
                  "Completeness of the profiles") +
      "</div><div><h3>What was busy</h3>\n" +
      html::table({"share", "baseline<br>%", "tuned<br>%"}, rows(baseline, tuned, kShares), "Shares of the step") +
      "</div></div>\n";
  return html::section("evidence", "How far to trust it", "", body);
}

}  // namespace spillway::decision::sections
