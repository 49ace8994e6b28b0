// trace_lanes.h - the slices of a trace and how they share lanes: a viewer draws a lane as a stack, so two slices of it
// must be apart or one inside of the other.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/activity.h"

namespace spillway::profiler {

struct Slice {
  std::string name;
  const char* category;
  Interval time;
  std::string arguments;          // a JSON object
  std::uint32_t correlation = 0;  // of a call or of what it started; 0: of neither
};

// As few lanes as first fit makes of them, each sorted by begin with what holds a slice before it; a slice comes on a
// further lane when it would overlap an earlier one. Of equal times the first given holds the others.
std::vector<std::vector<Slice>> nested(std::vector<Slice> slices);

struct Lane {
  enum class Process : std::uint8_t { host = 1, device = 2 } process;
  std::string name;
  std::vector<Slice> slices;
};
// Host threads (ranges and calls; what they waited for and what the profiler cost, on lanes of their own), then steps
// and streams, those with a name first. What has no slice has no lane.
std::vector<Lane> lanes_of(const Profile& profile);

}  // namespace spillway::profiler
