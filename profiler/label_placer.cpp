// label_placer.cpp - see label_placer.h.
#include "profiler/label_placer.h"

#include <algorithm>

namespace spillway::profiler::svg {

namespace {
constexpr double kLetter = 7.2, kAscent = 11, kDescent = 4, kGap = 5;
}

void LabelPlacer::dot(double x, double y, double radius) {
  dots_.push_back({x, y, radius});
}

bool LabelPlacer::free(const Page& page, const Box& b) const {
  if (b.left < 0 || b.right > page.width || b.top < 0 || b.bottom > height_) return false;
  for (const Box& other : page.labels)
    if (b.left < other.right && other.left < b.right && b.top < other.bottom && other.top < b.bottom) return false;
  return std::none_of(dots_.begin(), dots_.end(), [&](const Dot& d) {
    const double x = d.x * page.width;
    const double near_x = std::clamp(x, b.left, b.right), near_y = std::clamp(d.y, b.top, b.bottom);
    return (near_x - x) * (near_x - x) + (near_y - d.y) * (near_y - d.y) < d.radius * d.radius;
  });
}

std::optional<LabelPlacer::Place> LabelPlacer::place(double x, double y, double radius, std::size_t letters) {
  const double length = kLetter * static_cast<double>(letters), side = radius + kGap;
  std::vector<Place> places = {{side, kDescent, Anchor::start, false},
                               {-side, kDescent, Anchor::end, false},
                               {0, -radius - kGap, Anchor::middle, false},
                               {0, radius + kGap + kAscent, Anchor::middle, false}};
  for (const double up : {-10., 18., -18., 26.})
    for (const double sign : {1., -1.})
      places.push_back({sign * side, up, sign > 0 ? Anchor::start : Anchor::end, false});
  const auto box = [&](const Page& page, const Place& p) {
    const double at = x * page.width + p.dx;
    const double left = p.anchor == Anchor::start ? at : p.anchor == Anchor::end ? at - length : at - length / 2;
    return Box{left, y + p.dy - kAscent, left + length, y + p.dy + kDescent};
  };
  for (const bool phone_too : {true, false})
    for (Place p : places) {
      const Box wide = box(wide_, p), narrow = box(narrow_, p);
      if (!free(wide_, wide) || (phone_too && !free(narrow_, narrow))) continue;
      wide_.labels.push_back(wide);
      if (phone_too) narrow_.labels.push_back(narrow);
      p.wide_only = !phone_too;
      return p;
    }
  return std::nullopt;
}

}  // namespace spillway::profiler::svg
