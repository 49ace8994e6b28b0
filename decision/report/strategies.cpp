// strategies.cpp - the strategies beside each other: peak memory against throughput with the budget in the picture,
// every measured step, and all figures of 76.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "profiler/label_placer.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using namespace profiler::svg;
namespace {

struct Point {
  Node candidate;
  double peak, speed;
  bool best;
};

std::vector<Point> measured(const Document& d) {
  std::vector<Point> points;
  const std::string best = d.benchmark["summary"]["best_candidate"].text();
  for (const Node& c : d.benchmark["candidates"].children()) {
    const auto peak = c["peak_memory_mb"].number(), speed = c["samples_per_s"].number();
    if (c["status"].text() == "oom" || c["status"].text() == "invalid" || !peak || !speed) continue;
    points.push_back({c, *peak, *speed, c["name"].text() == best});
  }
  return points;
}

// A line of the budget belongs into the picture when it lies near what was measured; else words say where it is.
constexpr double kNearCap = 1.35, kNearMinimum = 0.6;

// Names beside the dots, with their figures where there is room.
void label(Plot& plot, const std::vector<Point>& points, const Scale& x, int height) {
  constexpr double kRadius = 8;
  LabelPlacer placer(height);
  for (const Point& p : points) placer.dot(x.at(p.peak), plot.path_y(p.speed), kRadius);
  for (const Point& p : points) {
    const std::string name = p.candidate["name"].text() + (p.best ? " (best)" : "");
    const auto place = placer.place(x.at(p.peak), plot.path_y(p.speed), kRadius, name.size());
    if (!place) continue;
    plot.text(p.peak, p.speed, place->dx, place->dy, place->anchor,
              fmt::format("label{}{}", p.best ? " strong" : "", place->wide_only ? " wide" : ""), escape(name));
  }
}

std::string scatter(const Document& d) {
  const std::vector<Point> points = measured(d);
  if (points.empty()) return html::note("No strategy was measured: there is no picture.");
  double low_x = points[0].peak, high_x = low_x, low_y = points[0].speed, high_y = low_y;
  for (const Point& p : points) {
    const double spread = p.candidate["spread"].number().value_or(0);
    low_x = std::min(low_x, p.peak);
    high_x = std::max(high_x, p.peak);
    low_y = std::min(low_y, p.speed * (1 - spread));
    high_y = std::max(high_y, p.speed * (1 + spread));
  }
  const Node cap_at = d.benchmark["budget"]["memory_cap_mb"], minimum_at = d.benchmark["budget"]["min_samples_per_s"];
  const auto cap = cap_at.number(), minimum = minimum_at.number();
  const bool cap_shown = cap && *cap<kNearCap * high_x&& * cap> low_x / kNearCap;
  const bool minimum_shown = minimum && *minimum > kNearMinimum * low_y && *minimum < high_y / kNearMinimum;
  if (cap_shown) low_x = std::min(low_x, *cap), high_x = std::max(high_x, *cap);
  if (minimum_shown) low_y = std::min(low_y, *minimum), high_y = std::max(high_y, *minimum);
  const double pad_x = std::max(0.12 * (high_x - low_x), 0.02 * high_x);
  const double pad_y = std::max(0.15 * (high_y - low_y), 0.02 * high_y);
  const Scale x = Scale::linear(std::max(0.0, low_x - pad_x), high_x + pad_x);
  const Scale y = Scale::linear(std::max(0.0, low_y - pad_y), high_y + pad_y);

  constexpr int kHeight = 320;
  Plot plot("Peak memory against throughput, a dot a strategy; down and to the right is worse", kHeight, x, y);
  plot.axis_x(x.ticks(7), "peak memory, MiB");
  plot.axis_y(y.ticks(6), "samples/s");
  if (cap_shown || minimum_shown) {
    const double right = cap_shown ? *cap : x.high(), bottom = minimum_shown ? *minimum : y.low();
    if ((!cap || *cap > x.low()) && (!minimum || *minimum < y.high()))
      plot.box(x.low(), y.high(), right, bottom, "feasible", "within the budget");
  }
  if (cap_shown) {
    plot.line(*cap, y.low(), *cap, y.high(), "budget");
    plot.text(*cap, y.high(), -6, 14, Anchor::end, "budget-text", "cap " + figure_svg(cap_at, Unit::mebibytes));
  }
  if (minimum_shown) {
    plot.line(x.low(), *minimum, x.high(), *minimum, "budget");
    plot.text(x.high(), *minimum, -6, -6, Anchor::end, "budget-text",
              "minimum " + figure_svg(minimum_at, Unit::per_second));
  }
  for (const Point& p : points) {
    const double spread = p.candidate["spread"].number().value_or(0);
    plot.line(p.peak, p.speed * (1 - spread), p.peak, p.speed * (1 + spread), "whisker");
    plot.dot(p.peak, p.speed, p.best ? 7 : 5.5, p.best ? "mark best" : "mark",
             fmt::format("{}: {}, {}", escape(p.candidate["name"].text()), with_unit(p.peak, Unit::mebibytes),
                         with_unit(p.speed, Unit::per_second)));
  }
  label(plot, points, x, kHeight);

  std::string caption = "Up and to the left is better. Whiskers: the median absolute deviation of the steps. ";
  if (!cap)
    caption += "The budget has no memory cap; ";
  else if (cap_shown)
    caption += "The tinted area is within the budget; ";
  else
    caption += fmt::format("The memory cap, {}, lies {} this picture; ", figure(cap_at, Unit::mebibytes),
                           *cap > x.high() ? "to the right of" : "to the left of");
  if (!minimum)
    caption += "no minimum of throughput was asked for.";
  else if (minimum_shown)
    caption += fmt::format("at least {} was asked for.", figure(minimum_at, Unit::per_second));
  else
    caption += fmt::format("the minimum, {}, lies {} it.", figure(minimum_at, Unit::per_second),
                           *minimum < y.low() ? "below" : "above");
  return html::figure_box(plot.svg(), caption);
}

// A dot for every measured step: whether a difference between two strategies is more than noise can be seen.
std::string steps(const Document& d) {
  const std::vector<Point> points = measured(d);
  double low = INFINITY, high = 0;
  for (const Point& p : points)
    for (const Node& sample : p.candidate["samples"].children()) {
      const double ms = sample["step_time_ms"].number().value_or(NAN);
      low = std::fmin(low, ms);
      high = std::fmax(high, ms);
    }
  if (!(low <= high)) return "";
  const double pad = std::max(0.04 * (high - low), 0.01 * high);
  constexpr int kRow = 46;
  const int height = kRow * static_cast<int>(points.size());
  const Scale x = Scale::linear(std::max(0.0, low - pad), high + pad), y = Scale::linear(-height, 0);
  Plot plot("Time of every measured step, a row a strategy, a dot a step", height, x, y);
  plot.axis_x(x.ticks(8), "step time, ms");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Node& c = points[i].candidate;
    const double top = -static_cast<double>(kRow) * static_cast<double>(i);
    plot.text(x.low(), top, 0, 15, Anchor::start, "label", escape(c["name"].text()));
    for (const Node& sample : c["samples"].children())
      if (const auto ms = sample["step_time_ms"].number())
        plot.dot(*ms, top - 29, 4, "step-dot",
                 fmt::format("repeat {}: {}", figure_text(sample["repeat"], Unit::count),
                             with_unit(*ms, Unit::milliseconds)));
    if (const auto median = c["step_time_ms"].number()) {
      plot.line(*median, top - 18, *median, top - 40, "median");
      plot.text(x.high(), top, 0, 15, Anchor::end, "label",
                "median " + figure_svg(c["step_time_ms"], Unit::milliseconds));
    }
  }
  return html::figure_box(plot.svg(), "Every measured step of every repeat; the bar is the median.");
}

Node sidecar_metrics(const Document& d, const std::string& name) {
  for (const Node& c : d.benchmark_sidecar["candidates"].children())
    if (c["name"].text() == name) return c["metrics"];
  return {};
}

std::string name_cell(const Node& c, const std::string& best) {
  const std::string name = c["name"].text();
  return fmt::format("<th scope=\"row\">{}{}</th>", escape(name),
                     !name.empty() && name == best ? " <span class=\"tag\">best</span>" : "");
}

std::string tables(const Document& d) {
  std::string gains, costs;
  const std::string best = d.benchmark["summary"]["best_candidate"].text();
  Node baseline;
  for (const Node& c : d.benchmark["candidates"].children())
    if (c["name"].text() == "baseline") baseline = c;
  for (const Node& c : d.benchmark["candidates"].children()) {
    const std::string name = c["name"].text(), status = c["status"].text();
    if (status == "oom" || status == "invalid") {
      const std::string why = c["error"].text().empty() ? c["reason"].text() : c["error"].text();
      gains += fmt::format("<tr>{}<td colspan=\"10\" class=\"failed\"><b>{}</b> {}</td></tr>\n", name_cell(c, best),
                           status == "oom" ? "✕ out of memory:" : "✕ invalid:", escape(why));
      continue;
    }
    const Node more = sidecar_metrics(d, name), cost = c["cost"];
    // The sidecar has what the protocol derives; without it, it is derived here.
    const std::string saving =
        more.present() ? figure_cell(more["memory_saving_mb"], Unit::mebibytes)
                       : computed_figure(Operation::subtract, {baseline["peak_memory_mb"], c["peak_memory_mb"]},
                                         Unit::mebibytes, Form::cell);
    const std::string ratio = more.present()
                                  ? figure_cell(more["throughput_ratio"], Unit::ratio)
                                  : computed_figure(Operation::divide, {c["samples_per_s"], baseline["samples_per_s"]},
                                                    Unit::ratio, Form::cell);
    std::string row = name_cell(c, best);
    row += figure_cell(c["peak_memory_mb"], Unit::mebibytes);
    row += saving;
    row += figure_cell(c["peak_reserved_mb"], Unit::mebibytes);
    row += figure_cell(c["peak_activation_mb"], Unit::mebibytes);
    row += figure_cell(c["step_time_ms"], Unit::milliseconds);
    row += figure_cell(c["spread"], Unit::share);
    row += figure_cell(c["samples_per_s"], Unit::per_second);
    row += ratio;
    row += figure_cell(c["loss"], Unit::loss);
    row += figure_cell(c["eval_loss"], Unit::loss);
    gains += "<tr>" + row + "</tr>\n";

    row = name_cell(c, best);
    row += figure_cell(cost["recompute_ms"], Unit::milliseconds);
    row += figure_cell(cost["recompute_flops"], Unit::flops);
    row += figure_cell(cost["offload_bytes"], Unit::bytes);
    row += figure_cell(cost["prefetch_bytes"], Unit::bytes);
    row += figure_cell(cost["transfer_ms"], Unit::milliseconds);
    row += figure_cell(cost["exposed_transfer_ms"], Unit::milliseconds);
    row += figure_cell(cost["pinned_host_bytes"], Unit::bytes);
    row += figure_cell(cost["allocator_retries"], Unit::count);
    costs += "<tr>" + row + "</tr>\n";
  }
  return "<h3>What each strategy gives</h3>\n" +
         html::table({"strategy", "peak<br>MiB", "saving<br>MiB", "reserved<br>MiB", "activations<br>MiB", "step<br>ms",
                      "spread<br>%", "samples/s", "throughput<br>× baseline", "loss", "eval loss"},
                     gains, "Figures of every strategy") +
         "<h3>What it costs, a step</h3>\n" +
         html::table({"strategy", "recompute<br>ms", "recompute<br>GFLOP", "copied out<br>MiB", "copied in<br>MiB",
                      "copying<br>ms", "exposed<br>ms", "pinned host<br>MiB", "allocator<br>retries"},
                     costs, "Costs of every strategy");
}

}  // namespace

std::string strategies(const Document& d) {
  if (!d.benchmark.present())
    return html::section("strategies", "The strategies", "",
                         html::note("The 76 record is missing: no strategies were compared."));
  const Node s = d.benchmark["summary"];
  const std::string same =
      d.benchmark["losses_identical"].is_true() ? " Their losses are identical, bit for bit: they train the same." : "";
  return html::section(
      "strategies", "The strategies",
      fmt::format("{} of {} strategies were measured on one workload.{}", figure(s["measured_count"], Unit::count),
                  figure(s["candidate_count"], Unit::count), same),
      scatter(d) + tables(d) + steps(d));
}

}  // namespace spillway::decision::sections
