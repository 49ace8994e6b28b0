// label_placer.h - where a dot's name can stand so that it lies on no other name and no dot, on a wide page and on a
// phone's: a plot's marks move with its width, its text keeps its size.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "profiler/svg.h"

namespace spillway::profiler::svg {

class LabelPlacer {
 public:
  // x: share of the plot's width; y and radius: pixels. All dots come before the first place().
  explicit LabelPlacer(double height) : height_(height) {}
  void dot(double x, double y, double radius);

  struct Place {
    double dx, dy;  // of the text's anchor from the dot
    Anchor anchor;
    bool wide_only;  // no room on a phone
  };
  // Beside the dot, above or below it, or further off; nothing where every place is taken. `letters`: of the text.
  std::optional<Place> place(double x, double y, double radius, std::size_t letters);

 private:
  struct Box {
    double left, top, right, bottom;
  };
  struct Page {
    double width;
    std::vector<Box> labels;
  };
  struct Dot {
    double x, y, radius;
  };
  bool free(const Page& page, const Box& box) const;
  double height_;
  Page wide_{900, {}}, narrow_{310, {}};
  std::vector<Dot> dots_;
};

}  // namespace spillway::profiler::svg
