// split.cpp - where a step's time goes without overlap, baseline against tuned, and which parts explain the difference.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using namespace profiler::svg;
namespace {

struct Part {
  const char *key, *name, *css;
};
constexpr std::array<Part, 7> kParts = {{{"compute_ms", "compute", "t-compute"},
                                         {"recompute_ms", "recompute", "t-recompute"},
                                         {"optimizer_ms", "optimizer", "t-optimizer"},
                                         {"exposed_copy_out_ms", "exposed copy out", "t-out"},
                                         {"exposed_copy_in_ms", "exposed copy in", "t-in"},
                                         {"allocation_ms", "allocation", "t-allocation"},
                                         {"idle_ms", "idle", "t-idle"}}};

std::string bars(const std::array<Node, 2>& splits, const std::array<std::string, 2>& names) {
  double most = 0;
  for (const Node& s : splits) most = std::max(most, s["step_ms"].number().value_or(0));
  if (!(most > 0)) return "";
  constexpr int kRow = 58;
  constexpr double kLabelled = 0.08;
  const Scale x = Scale::linear(0, most * 1.02), y = Scale::linear(-2 * kRow, 0);
  Plot plot("A step's time by what it goes to, baseline above tuned", 2 * kRow, x, y);
  plot.axis_x(x.ticks(8), "ms");
  for (std::size_t i = 0; i < 2; ++i) {
    const double top = -static_cast<double>(kRow) * static_cast<double>(i);
    plot.text(0, top, 0, 16, Anchor::start, "label",
              fmt::format("{} <tspan class=\"soft\">{}</tspan>", escape(names[i]),
                          figure_svg(splits[i]["step_ms"], Unit::milliseconds)));
    double at = 0;
    for (const Part& part : kParts) {
      const Node node = splits[i][part.key];
      const double ms = node.number().value_or(0);
      if (ms <= 0) continue;
      plot.box(at, top - 22, at + ms, top - 50, std::string("seg ") + part.css,
               fmt::format("{}: {}", part.name, with_unit(ms, Unit::milliseconds)));
      if (ms > kLabelled * x.high())
        plot.text(at + ms / 2, top - 22, 0, 18, Anchor::middle, std::string("on wide on-") + part.css,
                  figure_svg(node, Unit::milliseconds));
      at += ms;
    }
  }
  return plot.svg();
}

std::string table(const std::array<Node, 2>& splits) {
  std::string rows;
  const auto row = [&](const std::string& name, const char* key) {
    rows += fmt::format(
        "<tr><th scope=\"row\">{}</th>{}{}{}</tr>\n", name, figure_cell(splits[0][key], Unit::milliseconds),
        figure_cell(splits[1][key], Unit::milliseconds),
        computed_figure(Operation::subtract, {splits[1][key], splits[0][key]}, Unit::milliseconds, Form::cell));
  };
  for (const Part& part : kParts) row(fmt::format("<span class=\"key {}\"></span>{}", part.css, part.name), part.key);
  row("<b>the step</b>", "step_ms");
  return html::table({"part", "baseline<br>ms", "tuned<br>ms", "difference<br>ms"}, rows, "The split of a step's time");
}

std::string explanation(const Document& d, const std::array<Node, 2>& splits) {
  const Part* most = nullptr;
  double largest = 0;
  for (const Part& part : kParts) {
    const double change = computed(Operation::subtract, {splits[1][part.key], splits[0][part.key]}).value_or(0);
    if (std::abs(change) > std::abs(largest)) largest = change, most = &part;
  }
  const Node v = d.profiling["validation"];
  std::string text = fmt::format(
      "<p>Measured without a profiler, the two differ by {}; the parts of the profiles "
      "explain {} of it",
      figure(v["measured_difference_ms"], Unit::milliseconds),
      figure(v["explained_difference_ms"], Unit::milliseconds));
  if (v["explained_within"].json().is_number())
    text += fmt::format(", within {}", figure(v["explained_within"], Unit::share));
  text += ".";
  if (most)
    text += fmt::format(" What changed most is <span class=\"key {}\"></span>{}, by {}.", most->css, most->name,
                        computed_figure(Operation::subtract, {splits[1][most->key], splits[0][most->key]},
                                        Unit::milliseconds, Form::text));
  return text + "</p>\n";
}

// The two as they run without a profiler.
std::string measured(const Document& d) {
  std::string rows;
  for (const Node& c : d.profiling["candidates"].children()) {
    const Node m = c["metrics"];
    rows += fmt::format(
        "<tr><th scope=\"row\">{}</th>{}{}{}{}{}{}</tr>\n", html::text(c["name"]),
        figure_cell(m["step_time_ms"], Unit::milliseconds), figure_cell(m["samples_per_s"], Unit::per_second),
        figure_cell(m["peak_memory_mb"], Unit::mebibytes), figure_cell(m["peak_reserved_mb"], Unit::mebibytes),
        figure_cell(m["loss"], Unit::loss), figure_cell(m["eval_loss"], Unit::loss));
  }
  if (rows.empty()) return "";
  return "<h3>Measured without a profiler</h3>\n" +
         html::table({"candidate", "step<br>ms", "samples/s", "peak<br>MiB", "reserved<br>MiB", "loss", "eval loss"},
                     rows, "The two candidates, measured without a profiler");
}

}  // namespace

std::string split(const Document& d) {
  const std::array<Node, 2> splits = {d.profiling["baseline_profile"]["split"], d.profiling["profile"]["split"]};
  if (!splits[0].present() && !splits[1].present())
    return html::section("split", "Where the time goes", "",
                         html::note("No profile: the 74 record is missing, or holds no split of the step."));
  std::vector<html::Key> keys;
  for (const Part& part : kParts) keys.push_back({part.css, part.name});
  const std::string tuned = d.profiling["config"]["tuned"].text();
  return html::section(
      "split", "Where the time goes",
      "A step’s time without overlap: what runs behind a kernel costs nothing and does not count.",
      html::legend(keys) +
          html::figure_box(bars(splits, {"baseline", tuned.empty() ? "tuned" : "tuned: " + tuned}), "") +
          explanation(d, splits) + table(splits) + measured(d));
}

}  // namespace spillway::decision::sections
