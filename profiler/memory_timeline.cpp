// memory_timeline.cpp - see memory_timeline.h: the recorder, and the peak explained.
#include "profiler/memory_timeline.h"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway::profiler {
namespace {

std::uint64_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

std::vector<LiveBlock> values(const std::map<std::uint64_t, LiveBlock>& blocks) {
  std::vector<LiveBlock> all;
  all.reserve(blocks.size());
  for (const auto& [address, block] : blocks) all.push_back(block);
  return all;
}

}  // namespace

const char* to_string(memory::MemoryEvent::Kind kind) {
  constexpr std::array<const char*, 8> kNames = {"allocate",      "free", "segment_allocate", "segment_release",
                                                 "out_of_memory", "use",  "begin_step",       "end_step"};
  return kNames[static_cast<std::size_t>(kind)];
}

MemoryRecorder::MemoryRecorder(memory::Allocator& allocator, std::size_t most_points)
    : allocator_(allocator), most_points_(most_points) {
  listen();
}

// What stands by the allocator's own books, with the owners that are known.
void MemoryRecorder::listen() {
  std::map<std::uint64_t, LiveBlock> standing;
  for (const auto& segment : allocator_.snapshot())
    for (const auto& block : segment.blocks) {
      if (block.state != memory::BlockState::allocated) continue;
      const std::uint64_t address = number_of(segment.address) + static_cast<std::uint64_t>(block.offset);
      LiveBlock& live = standing[address];
      live = {address,
              block.bytes,
              block.requested,
              block.category,
              "(before the recording)",
              number_of(segment.stream),
              block.serial};
      if (const auto known = live_.find(address); known != live_.end() && known->second.serial == block.serial)
        live.owner = known->second.owner;
    }
  live_ = std::move(standing);
  if (listening_) return;
  listening_ = allocator_.listen([this](const memory::MemoryEvent& e, const memory::Stats& s) { hear(e, s); });
}

void MemoryRecorder::begin(std::function<Nanoseconds()> clock) {
  listen();
  clock_ = std::move(clock);
  timeline_ = {};
  timeline_.standing = values(live_);
}

MemoryTimeline MemoryRecorder::end() {
  clock_ = nullptr;
  pause();
  timeline_.segments = allocator_.snapshot();
  timeline_.left = values(live_);
  return std::exchange(timeline_, {});
}

void MemoryRecorder::hear(const memory::MemoryEvent& event, const memory::Stats& stats) {
  using Kind = memory::MemoryEvent::Kind;
  if (event.kind > Kind::out_of_memory) return;  // steps and uses change nothing that stands
  const std::uint64_t address = number_of(event.address);
  std::string owner(event.owner);
  if (event.kind == Kind::free) {
    const auto it = live_.find(address);
    if (it != live_.end()) {
      owner = std::move(it->second.owner);
      live_.erase(it);
    }
  } else if (event.kind == Kind::allocate) {
    live_[address] = {address,          event.bytes, event.requested, event.category, owner, number_of(event.stream),
                      stats.allocations};
  }
  if (!clock_) return;
  if (timeline_.points.size() == most_points_) {
    ++timeline_.dropped;
    return;
  }
  timeline_.points.push_back({event.kind, event.category, event.bytes, event.requested, address, std::move(owner),
                              number_of(event.stream), clock_(), stats.allocated, stats.reserved, stats.by_category});
}

Peak peak_of(const MemoryTimeline& timeline) {
  using Kind = memory::MemoryEvent::Kind;
  Peak peak;
  for (const LiveBlock& block : timeline.standing) {
    peak.allocated += block.bytes;
    peak.by_category[static_cast<std::size_t>(block.category)] += block.bytes;
  }
  for (std::size_t i = 0; i < timeline.points.size(); ++i) {
    const MemoryPoint& p = timeline.points[i];
    if (p.allocated <= peak.allocated) continue;
    peak.index = static_cast<std::ptrdiff_t>(i);
    peak.at = p.at;
    peak.allocated = p.allocated;
    peak.by_category = p.by_category;
    peak.reserved = p.reserved;
  }
  if (peak.index < 0 && !timeline.points.empty()) peak.reserved = timeline.points.front().reserved;
  std::map<std::uint64_t, LiveBlock> live;
  for (const LiveBlock& block : timeline.standing) live[block.address] = block;
  for (std::ptrdiff_t i = 0; i <= peak.index; ++i) {
    const MemoryPoint& p = timeline.points[static_cast<std::size_t>(i)];
    if (p.kind == Kind::allocate) live[p.address] = {p.address, p.bytes, p.requested, p.category, p.owner, p.stream, 0};
    if (p.kind == Kind::free) live.erase(p.address);
  }
  peak.blocks = values(live);
  std::stable_sort(peak.blocks.begin(), peak.blocks.end(),
                   [](const LiveBlock& a, const LiveBlock& b) { return a.bytes > b.bytes; });
  return peak;
}

}  // namespace spillway::profiler
