// trace.h - a profile as a timeline that opens in ui.perfetto.dev: Chrome's trace event format, JSON. Lanes for the
// host and for every stream, arrows from a call to what it started, counters for memory.
#pragma once
#include <string>

#include "profiler/activity.h"
#include "profiler/memory_timeline.h"

namespace spillway::profiler {

// Timestamps are microseconds with three decimals from the first thing that either recording has; both count from one
// origin, so begin them together. Slices nest in every lane: what would overlap another goes to a further lane of the
// same name. Names may be any bytes; what is not UTF-8 of them is replaced.
// `memory` may be null: no counters of allocated and reserved then. That of pinned host memory begins with the least
// that must have been there, so that what is freed was.
std::string to_chrome_trace(const Profile& profile, const MemoryTimeline* memory);

}  // namespace spillway::profiler
