// intervals.cpp - see intervals.h.
#include "profiler/intervals.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace spillway::profiler {
namespace {

bool begins_before(const Interval& a, const Interval& b) {
  return a.begin < b.begin;
}

// Sorted by begin, of any overlap, into disjoint.
std::vector<Interval> merged(const std::vector<Interval>& sorted) {
  std::vector<Interval> out;
  for (const Interval& i : sorted) {
    if (i.length() == 0) continue;
    if (!out.empty() && i.begin <= out.back().end)
      out.back().end = std::max(out.back().end, i.end);
    else
      out.push_back(i);
  }
  return out;
}

}  // namespace

IntervalSet::IntervalSet(std::vector<Interval> any) {
  if (!std::is_sorted(any.begin(), any.end(), begins_before)) std::sort(any.begin(), any.end(), begins_before);
  intervals_ = merged(any);
}

Nanoseconds IntervalSet::length() const {
  Nanoseconds sum = 0;
  for (const Interval& i : intervals_) sum += i.length();
  return sum;
}

IntervalSet operator|(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> both;
  both.reserve(a.intervals_.size() + b.intervals_.size());
  std::merge(a.intervals_.begin(), a.intervals_.end(), b.intervals_.begin(), b.intervals_.end(),
             std::back_inserter(both), begins_before);
  IntervalSet out;
  out.intervals_ = merged(both);
  return out;
}

IntervalSet operator&(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  auto i = a.intervals_.begin(), j = b.intervals_.begin();
  while (i != a.intervals_.end() && j != b.intervals_.end()) {
    const Interval common = {std::max(i->begin, j->begin), std::min(i->end, j->end)};
    if (common.length() > 0) out.intervals_.push_back(common);
    // Whichever ends first meets nothing further.
    if (i->end < j->end)
      ++i;
    else
      ++j;
  }
  return out;
}

IntervalSet operator-(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  auto j = b.intervals_.begin();
  for (const Interval& i : a.intervals_) {
    Nanoseconds left = i.begin;  // what is before it has been decided
    while (j != b.intervals_.end() && j->end <= left) ++j;
    for (; j != b.intervals_.end() && j->begin < i.end; ++j) {
      if (j->begin > left) out.intervals_.push_back({left, j->begin});
      left = j->end;
      if (left >= i.end) break;  // it may reach into the next of `a` too
    }
    if (left < i.end) out.intervals_.push_back({left, i.end});
  }
  return out;
}

IntervalSet IntervalSet::clipped(Interval window) const {
  IntervalSet out;
  auto i = std::upper_bound(intervals_.begin(), intervals_.end(), window.begin,
                            [](Nanoseconds at, const Interval& interval) { return at < interval.end; });
  for (; i != intervals_.end() && i->begin < window.end; ++i) {
    const Interval part = {std::max(i->begin, window.begin), std::min(i->end, window.end)};
    if (part.length() > 0) out.intervals_.push_back(part);
  }
  return out;
}

}  // namespace spillway::profiler
