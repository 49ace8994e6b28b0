// timeline.cpp - one step of the baseline and one of the tuned candidate on one scale of time: what the host issued,
// and what every stream of the device did.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "decision/report/trace_reading.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using namespace profiler::svg;
namespace {

constexpr int kRow = 44, kBar = 22;
// Thinner than this share of the picture a slice is drawn together with its neighbours of the same colour; wider than
// the other it gets a tooltip of its own.
constexpr double kThin = 1.0 / 1200, kTold = 1.0 / 160;

// What colour a slice has; ranges of the host have their phase as category.
std::string css_of(const TraceSlice& s, bool device) {
  if (s.category == "device_to_host") return "t-out";
  if (s.category == "host_to_device") return "t-in";
  if (s.category == "synchronization") return "t-wait";
  if (s.category == "call" || s.category == "overhead") return "t-call";
  const std::string& phase = device ? s.phase : s.category;
  for (const char* known : {"forward", "backward", "recompute", "optimizer", "evaluate"})
    if (phase == known) return std::string("t-") + known;
  if (phase == "offload") return "t-out";
  if (phase == "prefetch") return "t-in";
  return "t-other";
}

struct Row {
  std::string name;
  std::vector<std::pair<TraceSlice, std::string>> slices;  // with their colour
};

// Lanes of one name are one row; the host's ranges and calls, which share a lane, are two.
std::vector<Row> rows_of(const StepTrace& trace) {
  std::vector<Row> rows;
  const auto row = [&](const std::string& name) -> Row& {
    for (Row& r : rows)
      if (r.name == name) return r;
    rows.push_back({name, {}});
    return rows.back();
  };
  for (const TraceLane& lane : trace.lanes)
    for (const TraceSlice& s : lane.slices) {
      const std::string css = css_of(s, lane.device);
      const bool call = !lane.device && s.category == "call";
      row(call ? lane.name + ", calls" : lane.name).slices.emplace_back(s, css);
    }
  return rows;
}

// Neighbours of one colour become one where the gap between them cannot be seen and one of the two can hardly be.
struct Drawn {
  double begin, end;
  std::string css;
  const TraceSlice* only;  // null: several
};
std::vector<Drawn> coalesce(const Row& row, double thin) {
  std::vector<Drawn> drawn;
  const auto hardly_seen = [thin](double begin, double end) { return end - begin < 4 * thin; };
  for (const auto& [slice, css] : row.slices) {
    Drawn* last = drawn.empty() ? nullptr : &drawn.back();
    if (last && last->css == css && slice.begin - last->end < thin &&
        (slice.end <= last->end || hardly_seen(slice.begin, slice.end) || hardly_seen(last->begin, last->end))) {
      if (slice.end > last->end + thin) last->only = nullptr;
      last->end = std::max(last->end, slice.end);
    } else {
      drawn.push_back({slice.begin, slice.end, css, &slice});
    }
  }
  return drawn;
}

void draw_row(Plot& plot, const Row& row, double top, double origin, double whole) {
  std::map<std::string, std::string> paths;  // by colour: most of a row is a few elements
  std::vector<const Drawn*> told;
  const std::vector<Drawn> drawn = coalesce(row, whole * kThin);
  for (const Drawn& d : drawn) {
    const double begin = plot.path_x((d.begin - origin) / 1000);
    const double width = std::max(plot.path_x((d.end - origin) / 1000) - begin, 0.4);
    paths[d.css] += fmt::format("M{} {}h{}v{}h-{}z", coordinate(begin), coordinate(plot.path_y(top)), coordinate(width),
                                kBar, coordinate(width));
    if (d.only && d.end - d.begin > whole * kTold) told.push_back(&d);
  }
  // Ranges lie within ranges, and a colour is drawn at once: those that hold others first.
  for (const char* css : {"t-other", "t-wait", "t-evaluate", "t-forward", "t-backward", "t-optimizer", "t-recompute",
                          "t-out", "t-in", "t-call"})
    if (const auto path = paths.find(css); path != paths.end()) plot.path(path->second, std::string("slice ") + css);
  for (const Drawn* d : told)
    plot.box((d->begin - origin) / 1000, top, (d->end - origin) / 1000, top - kBar, "tell",
             fmt::format("{}: {}", escape(d->only->name), with_unit(d->end - d->begin, Unit::microseconds)));
}

std::string chart(const StepTrace& trace, const std::string& name, double whole) {
  const std::vector<Row> rows = rows_of(trace);
  if (rows.empty()) return html::note("Nothing ran in this step.");
  const int height = kRow * static_cast<int>(rows.size());
  const Scale x = Scale::linear(0, whole / 1000), y = Scale::linear(-height, 0);
  Plot plot("One step of " + name + " on the host and on every stream", height, x, y);
  plot.axis_x(x.ticks(9), "ms from the step’s begin");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double top = -static_cast<double>(kRow) * static_cast<double>(i);
    plot.text(0, top, 0, 14, Anchor::start, "tick lane", escape(rows[i].name));
    plot.box(0, top - 18, whole / 1000, top - 18 - kBar, "lane-back", "");
    draw_row(plot, rows[i], top - 18, trace.step.begin, whole);
  }
  const double end = (trace.step.end - trace.step.begin) / 1000;
  plot.line(end, -height, end, 0, "step-end");
  return plot.svg();
}

std::string one(const std::optional<StepTrace>& trace, const std::string& title, const std::string& name,
                double whole) {
  if (!trace) return html::note("The trace of " + name + " is missing.");
  return fmt::format("<h3>{}</h3>\n", title) +
         html::figure_box(chart(*trace, name, whole),
                          fmt::format("{}, the median of {} by length, {}.", escape(trace->step.name), trace->steps,
                                      with_unit(trace->step.end - trace->step.begin, Unit::microseconds)));
}

std::optional<StepTrace> step_of(const Node& trace) {
  return trace.present() ? std::optional(read_step(trace)) : std::nullopt;
}

double length(const std::optional<StepTrace>& trace) {
  return trace ? trace->step.end - trace->step.begin : 0;
}

}  // namespace

std::string timeline(const Document& d) {
  const std::optional<StepTrace> baseline = step_of(d.trace_baseline), candidate = step_of(d.trace_tuned);
  const double whole = std::max(length(baseline), length(candidate));
  if (!(whole > 0))
    return html::section("timeline", "One step in time", "",
                         html::note("No trace stands in the folder: experiment 74 writes "
                                    "<code>74_trace_baseline.json</code> and <code>74_trace_tuned.json</code>."));
  const std::string tuned = escape(d.profiling["config"]["tuned"].text());
  std::string lead = "Both steps on one scale of time. Where a stream is empty, it waits.";
  if (d.host()) lead += " On a host the streams share the processor: the order is a GPU’s, the lengths are not.";
  return html::section("timeline", "One step in time", lead,
                       html::legend({{"t-forward", "forward"},
                                     {"t-backward", "backward"},
                                     {"t-recompute", "recompute"},
                                     {"t-optimizer", "optimizer"},
                                     {"t-out", "copy out"},
                                     {"t-in", "copy in"},
                                     {"t-call", "runtime call"},
                                     {"t-wait", "waiting"},
                                     {"t-other", "other"}}) +
                           one(baseline, "Baseline", "the baseline", whole) +
                           one(candidate, "Tuned" + (tuned.empty() ? "" : ": " + tuned), "the tuned candidate", whole));
}

}  // namespace spillway::decision::sections
