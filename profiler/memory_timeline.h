// memory_timeline.h - every allocation and free of a run in order, with what it was for, whose it was, and what stood
// there after it: the allocator's ledger as plain data.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/activity.h"
#include "runtime/memory/caching_allocator.h"

namespace spillway::profiler {

// One event of the ledger, owned (the ledger's own are valid during the call only).
struct MemoryPoint {
  memory::MemoryEvent::Kind kind;
  memory::Category category;
  std::int64_t bytes = 0, requested = 0;
  std::uint64_t address = 0;
  std::string owner;
  std::uint64_t stream = 0;
  Nanoseconds at = 0;                        // host time, from the profile's origin
  std::int64_t allocated = 0, reserved = 0;  // after it
  memory::CategoryBytes by_category{};       // after it; sums to allocated
};

struct MemoryTimeline {
  std::vector<MemoryPoint> points;
};

}  // namespace spillway::profiler
