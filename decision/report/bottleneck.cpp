// bottleneck.cpp - what limits the tuned step, with the evidence, what to change, and what came second.
#include <fmt/format.h>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using profiler::svg::escape;

std::string bottleneck(const Document& d) {
  const Node b = d.profiling["bottleneck"];
  if (!b.present())
    return html::section("bottleneck", "What limits the tuned step", "",
                         html::note("No profile: the 74 record is missing, or names no bottleneck."));
  const auto row = [](const char* name, const std::string& value) {
    return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
  };
  const Node previous = d.profiling["previous"];
  std::string body = fmt::format(
      "<p class=\"finding\"><b>{}</b></p>\n<dl class=\"facts\">{}{}{}{}{}</dl>\n", html::words(b["category"].text()),
      row("Evidence", html::text(b["evidence"])), row("What to change", html::text(b["optimization"])),
      row("Should save", figure(b["predicted_saving_ms"], Unit::milliseconds) + " a step"),
      row("Met by", figure(b["margin"], Unit::share) + " beyond its threshold"),
      row("Runner-up", b["runner_up"].text().empty() ? std::string("none") : html::words(b["runner_up"].text())));
  std::string thresholds;
  for (const Node& t : b["thresholds"].children())
    thresholds +=
        fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>\n", html::words(t.key()), figure_cell(t, Unit::ratio));
  if (!thresholds.empty())
    body += html::details("Thresholds of the rules", html::table({"rule", "threshold"}, thresholds, "Thresholds"));
  if (previous.present())
    body += html::details("Before this run", fmt::format("<pre>{}</pre>\n", escape(previous.json().dump(2))));
  return html::section("bottleneck", "What limits the tuned step", "", body);
}

}  // namespace spillway::decision::sections
