// roofline.h - how close operators come to what the device can do: an operator's roof is the ceiling that its declared
// work meets first, arithmetic or memory.
#pragma once
#include <optional>
#include <string>

#include "profiler/analysis.h"

namespace spillway::profiler {

// Means over the operators that declare work, weighted by their time; shares of a ceiling.
struct Roofline {
  double compute = 0;                   // of the arithmetic ceiling
  double bandwidth = 0;                 // of the memory ceiling
  double roof = 0;                      // of whichever of the two an operator comes closer to
  double declared_time = 0;             // share of kernel time that these operators are
  double saving_ms = 0;                 // a step, were each of them to reach kReachable of its roof, one after another
  const Operator* first = nullptr;      // which of them would save most (in the analysis that was given)
  double first_ms = 0, first_roof = 0;  // its time a step, and what it reaches of its roof
};
// What a well written kernel gets of a measured ceiling.
inline constexpr double kReachable = 0.8;

// Nothing when a ceiling was not measured or no operator declared work.
std::optional<Roofline> roofline_of(const Analysis& analysis, const Ceilings& ceilings);
// "the memory bandwidth was not measured"; "" when there is a roofline.
std::string missing_for_roofline(const Analysis& analysis, const Ceilings& ceilings);

}  // namespace spillway::profiler
