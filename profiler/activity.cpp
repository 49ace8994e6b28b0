// activity.cpp - see activity.h: the names that traces and messages use.
#include "profiler/activity.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <unordered_set>

namespace spillway::profiler {

const char* to_string(Phase phase) {
  constexpr std::array<const char*, 9> kNames = {"none",      "data",    "forward",  "recompute", "backward",
                                                 "optimizer", "offload", "prefetch", "evaluate"};
  return kNames[static_cast<std::size_t>(phase)];
}

const char* to_string(DeviceActivity::Kind kind) {
  constexpr std::array<const char*, 5> kNames = {"kernel", "host_to_device", "device_to_host", "device_to_device",
                                                 "memset"};
  return kNames[static_cast<std::size_t>(kind)];
}

Profile of_step(const Profile& profile, std::size_t step) {
  const Interval window = profile.steps.at(step).time;
  const auto overlaps = [&](const Interval& i) { return i.begin < window.end && i.end > window.begin; };
  Profile one;
  one.tool = profile.tool;
  one.unavailable = profile.unavailable;
  one.works = profile.works;
  one.streams = profile.streams;
  one.completeness = profile.completeness;
  one.steps = {profile.steps[step]};
  const auto keep = [](const auto& from, auto& to, auto&& wanted) {
    std::copy_if(from.begin(), from.end(), std::back_inserter(to), wanted);
  };
  keep(profile.device, one.device, [&](const DeviceActivity& a) { return overlaps(a.time); });
  keep(profile.memory, one.memory, [&](const MemoryActivity& a) { return a.at >= window.begin && a.at < window.end; });
  std::unordered_set<std::uint64_t> calls, ranges;
  for (const DeviceActivity& a : one.device) {
    calls.insert(a.correlation);
    ranges.insert(a.range);
  }
  keep(profile.host, one.host, [&](const HostActivity& h) {
    return overlaps(h.time) || (h.kind == HostActivity::Kind::call && calls.contains(h.correlation));
  });
  for (const HostActivity& h : one.host) ranges.insert(h.range);
  // A range comes after the one that it is in.
  for (auto r = profile.ranges.rbegin(); r != profile.ranges.rend(); ++r)
    if (ranges.contains(r->id)) ranges.insert(r->parent);
  keep(profile.ranges, one.ranges, [&](const RangeSpan& r) { return overlaps(r.host) || ranges.contains(r.id); });
  return one;
}

}  // namespace spillway::profiler
