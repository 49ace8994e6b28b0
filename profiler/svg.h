// svg.h - charts drawn as inline SVG, by us: no library, no script, no font, no request. A plot is as wide as its page
// (positions along x are percentages, along y pixels), so its text keeps its size on a phone and in print. Colours are
// classes: the page's style sheet knows light and dark.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace spillway::profiler::svg {

// Text for HTML and SVG, in content and in double-quoted attributes. Control characters and what is not UTF-8 become
// U+FFFD, so that any name can stand in a page.
std::string escape(std::string_view text);

// A scale from values to [0, 1]. std::invalid_argument unless low < high, both finite, and low > 0 of a logarithmic
// one.
class Scale {
 public:
  static Scale linear(double low, double high);
  static Scale logarithmic(double low, double high);
  // Not clipped.
  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  // At most `most` (>= 2) round numbers of 1, 2 or 5 times a power of ten within the scale; of a logarithmic one powers
  // of ten, every second or third where there are many.
  std::vector<double> ticks(int most) const;

 private:
  Scale(double low, double high, bool logarithmic);
  double low_, high_;
  bool logarithmic_;
};

// "1 000", "0.25", "1e6": a tick's number as people write it, as many digits as it needs.
std::string tick_text(double value);

enum class Anchor { start, middle, end };

// A chart: marks are drawn in the order in which they are added, behind them the grid.
class Plot {
 public:
  // `height`: of the plotting area, pixels. `label` says to who cannot see it what the chart shows.
  Plot(std::string_view label, int height, Scale x, Scale y);

  // Grid lines with their numbers, and the axis' title. Below (x) and to the left (y) of the plotting area.
  void axis_x(const std::vector<double>& ticks, std::string_view title);
  void axis_y(const std::vector<double>& ticks, std::string_view title);

  // `css`: class of the mark. `title`: its tooltip, escaped already, may be empty.
  void dot(double x, double y, double radius, std::string_view css, const std::string& title);
  void line(double x0, double y0, double x1, double y1, std::string_view css);
  // Between two values of each scale.
  void box(double x0, double y0, double x1, double y1, std::string_view css, const std::string& title);
  // `markup`: escaped text or tspans. dx, dy: pixels from the place.
  void text(double x, double y, double dx, double dy, Anchor anchor, std::string_view css, const std::string& markup);
  // A path in the plot's own units: x in [0, kPathWidth] over the whole width, y in pixels from the top.
  void path(const std::string& d, std::string_view css);
  static constexpr int kPathWidth = 1000;
  double path_x(double value) const { return x_.at(value) * kPathWidth; }
  double path_y(double value) const { return (1 - y_.at(value)) * height_; }

  std::string svg() const;

 private:
  std::string percent(double x) const;
  std::string pixel(double y) const;
  std::string label_;
  int height_;
  Scale x_, y_;
  std::string grid_, marks_;
  bool flush_ = true;  // nothing stands to the left of it
};

// The shortest of a coordinate, two decimals at most.
std::string coordinate(double value);

}  // namespace spillway::profiler::svg
