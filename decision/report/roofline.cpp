// roofline.cpp - the operators against what the device can do at best: arithmetic intensity against achieved
// throughput, both logarithmic, under the ceilings.
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

struct Dot {
  Node op;
  double intensity, tflops, share;
};

std::vector<Dot> dots_of(const Node& profile, std::size_t& left_out) {
  std::vector<Dot> dots;
  for (const Node& op : profile["top_operators"].children()) {
    const double flops = op["flops"].number().value_or(0), bytes = op["bytes"].number().value_or(0);
    const auto tflops = op["achieved_tflops"].number();
    if (flops > 0 && bytes > 0 && tflops && *tflops > 0)
      dots.push_back({op, flops / bytes, *tflops, op["share"].number().value_or(0)});
    else
      ++left_out;
  }
  return dots;
}

double decade_below(double value) {
  return std::pow(10, std::floor(std::log10(value)));
}
double decade_above(double value) {
  return std::pow(10, std::floor(std::log10(value)) + 1);
}

// The ceiling at an intensity: TFLOP/s.
double roof(double intensity, double gbs, double tflops) {
  return std::min(intensity * gbs / 1000, tflops);
}

// No name stands on the roof's line, nor on the number at its right end.
void keep_off_roof(LabelPlacer& placer, const Scale& x, const Scale& y, double height, double gbs, double tflops) {
  constexpr int kPieces = 100, kNumber = 72;  // the number begins there on a phone
  const double span = x.high() / x.low();
  for (int i = 0; i <= kPieces; ++i) {
    const double at = static_cast<double>(i) / kPieces;
    const double line = (1 - y.at(roof(x.low() * std::pow(span, at), gbs, tflops))) * height;
    placer.dot(at, line, 2.5);
    if (i >= kNumber) placer.dot(at, line - 12, 6);
  }
}

std::string chart(const std::vector<Dot>& dots, const Node& ceilings) {
  const auto tflops = ceilings["tflops"].number(), gbs = ceilings["memory_gbs"].number();
  const bool roofed = tflops && gbs && *tflops > 0 && *gbs > 0;
  double low_x = dots[0].intensity, high_x = low_x, low_y = dots[0].tflops, high_y = low_y;
  for (const Dot& d : dots) {
    low_x = std::min(low_x, d.intensity);
    high_x = std::max(high_x, d.intensity);
    low_y = std::min(low_y, d.tflops);
    high_y = std::max(high_y, d.tflops);
  }
  if (roofed) {
    const double ridge = 1000 * *tflops / *gbs;
    high_x = std::max(high_x, 2 * ridge);
    high_y = std::max(high_y, 1.3 * *tflops);
  }
  const Scale x = Scale::logarithmic(decade_below(low_x), decade_above(high_x));
  const Scale y = Scale::logarithmic(decade_below(low_y), decade_above(high_y));
  constexpr int kHeight = 360;
  Plot plot("Operators: arithmetic intensity against achieved throughput, under the device's ceilings", kHeight, x, y);
  plot.axis_x(x.ticks(8), "FLOP a byte");
  plot.axis_y(y.ticks(8), "TFLOP/s");
  if (roofed) {
    const double ridge = 1000 * *tflops / *gbs;
    // The slope begins at whichever edge of the picture it meets.
    const double from = std::max(x.low(), 1000 * y.low() / *gbs);
    if (from < ridge)
      plot.line(from, roof(from, *gbs, *tflops), std::min(ridge, x.high()),
                roof(std::min(ridge, x.high()), *gbs, *tflops), "roof");
    if (ridge < x.high()) plot.line(std::max(ridge, x.low()), *tflops, x.high(), *tflops, "roof");
    plot.text(x.high(), *tflops, -4, -8, Anchor::end, "budget-text", figure_svg(ceilings["tflops"], Unit::tflops));
    plot.text(from, roof(from, *gbs, *tflops), 18, 12, Anchor::start, "budget-text",
              figure_svg(ceilings["memory_gbs"], Unit::gbs));
  }
  constexpr double kLargest = 18, kSmallest = 3;
  constexpr std::size_t kNamed = 8;
  const auto radius = [&](const Dot& d) {
    return std::max(kSmallest, kLargest * std::sqrt(std::clamp(d.share, 0.0, 1.0)));
  };
  LabelPlacer placer(kHeight);
  if (roofed) keep_off_roof(placer, x, y, kHeight, *gbs, *tflops);
  for (const Dot& d : dots) {
    plot.dot(d.intensity, d.tflops, radius(d), "op",
             fmt::format("{}: {}, {} of the kernels' time", escape(d.op["name"].text()),
                         figure_text(d.op["achieved_tflops"], Unit::tflops), figure_text(d.op["share"], Unit::share)));
    placer.dot(x.at(d.intensity), plot.path_y(d.tflops), radius(d));
  }
  for (std::size_t i = 0; i < std::min(kNamed, dots.size()); ++i) {
    const Dot& d = dots[i];
    const std::string name = d.op["name"].text();
    if (const auto place = placer.place(x.at(d.intensity), plot.path_y(d.tflops), radius(d), name.size()))
      plot.text(d.intensity, d.tflops, place->dx, place->dy, place->anchor,
                place->wide_only ? "tick strong wide" : "tick strong", escape(name));
  }
  return plot.svg();
}

std::string one(const Document& d, const Node& profile) {
  std::size_t left_out = 0;
  const std::vector<Dot> dots = dots_of(profile, left_out);
  if (dots.empty()) return html::note("No operator declared its arithmetic and its bytes: there is nothing to draw.");
  std::string caption = "The area of a dot is its share of the kernels’ time.";
  if (left_out > 0)
    caption += fmt::format(" {} of the top operators declared no arithmetic: not in the picture.", left_out);
  return html::figure_box(chart(dots, d.profiling["ceilings"]), caption);
}

}  // namespace

std::string roofline(const Document& d) {
  const Node c = d.profiling["ceilings"];
  if (!d.profiling["profile"].present())
    return html::section("roofline", "Roofline", "", html::note("No profile: the 74 record is missing or holds none."));
  std::string lead;
  if (c["tflops"].present() && c["memory_gbs"].present())
    lead =
        fmt::format("What this device does at best: {} of arithmetic, {} of memory; the link carries {} in and {} out.",
                    figure(c["tflops"], Unit::tflops), figure(c["memory_gbs"], Unit::gbs),
                    figure(c["host_to_device_gbs"], Unit::gbs), figure(c["device_to_host_gbs"], Unit::gbs));
  else
    lead = "This device’s ceilings were not measured: the operators stand here without a roof, beside each other only.";
  return html::section("roofline", "Roofline", lead,
                       one(d, d.profiling["profile"]) +
                           html::details("The baseline’s operators", one(d, d.profiling["baseline_profile"])));
}

}  // namespace spillway::decision::sections
