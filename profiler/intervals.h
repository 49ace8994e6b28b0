// intervals.h - sets of points in time, as half-open intervals. "When was the device busy" is one such set however many
// streams were busy at once, so no time is ever counted twice.
#pragma once
#include <vector>

#include "profiler/activity.h"

namespace spillway::profiler {

// Invariant: intervals() are not empty, sorted, and neither overlap nor touch; so two equal sets have equal intervals.
class IntervalSet {
 public:
  IntervalSet() = default;
  // The union of `any`: in any order, overlapping, empty (end <= begin) as they come. O(n log n), O(n) when sorted.
  explicit IntervalSet(std::vector<Interval> any);

  const std::vector<Interval>& intervals() const { return intervals_; }
  Nanoseconds length() const;  // of all of it

  // Each O(n + m).
  friend IntervalSet operator|(const IntervalSet& a, const IntervalSet& b);  // union
  friend IntervalSet operator&(const IntervalSet& a, const IntervalSet& b);  // intersection
  friend IntervalSet operator-(const IntervalSet& a, const IntervalSet& b);  // difference
  // The part that lies in `window`. O(log n + what it returns).
  IntervalSet clipped(Interval window) const;

 private:
  std::vector<Interval> intervals_;
};

}  // namespace spillway::profiler
