// naive_allocator.h - the published rules a second time, as plainly as they can be written: a list of segments, each a
// list of blocks, every decision by a linear search, every statistic a sum over all blocks. The fuzz test compares the
// allocator with it; it shares no code with the allocator, so that a mistake would have to be made twice.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <optional>

#include "runtime/memory/category.h"
#include "test/runtime/memory/fake_device.h"

namespace spillway::test {

class NaiveAllocator {
 public:
  struct Block {
    std::int64_t address, bytes, requested;  // requested 0: free
    memory::Category category;
  };
  struct Segment {
    int stream;
    bool small;
    std::int64_t bytes;
    std::list<Block> blocks;
  };
  struct Sums {
    std::int64_t allocated = 0, requested = 0, reserved = 0;
    memory::CategoryBytes by_category{};
  };

  NaiveAllocator(FakeDevice& device, std::int64_t cap) : device_(device), cap_(cap) {}

  // The address, or nothing when memory is out.
  std::optional<std::int64_t> allocate(std::int64_t bytes, int stream, memory::Category category) {
    std::int64_t size = bytes;
    while (size % 512 != 0) ++size;
    const bool small = size <= 1048576;
    Block* best = find(size, stream, small);
    if (!best) best = grow(size, stream, small);
    if (!best) {
      ++retries;
      release_cached();
      best = grow(size, stream, small);
    }
    if (!best) return std::nullopt;
    for (Segment& s : segments)
      for (auto it = s.blocks.begin(); it != s.blocks.end(); ++it)
        if (&*it == best) {
          const std::int64_t rest = it->bytes - size;
          if ((small && rest >= 512) || (!small && rest > 1048576)) {
            s.blocks.insert(std::next(it), Block{it->address + size, rest, 0, category});
            it->bytes = size;
          }
          it->requested = bytes;
          it->category = category;
        }
    note_peaks();
    return best->address;
  }

  void free(std::int64_t address) {
    for (Segment& s : segments) {
      for (Block& b : s.blocks)
        if (b.address == address) b.requested = 0;
      for (auto it = s.blocks.begin(); it != s.blocks.end();) {
        const auto next = std::next(it);
        if (next != s.blocks.end() && it->requested == 0 && next->requested == 0) {
          it->bytes += next->bytes;
          s.blocks.erase(next);
        } else {
          it = next;
        }
      }
    }
  }

  void release_cached() {
    segments.remove_if([&](const Segment& s) {
      if (s.blocks.size() != 1 || s.blocks.front().requested != 0) return false;
      device_.release(reinterpret_cast<void*>(s.blocks.front().address), s.bytes);
      return true;
    });
  }

  void reset_peaks() {
    peak = sums();
    max_requested = peak.requested;
    max_reserved = peak.reserved;
    max_by_category = peak.by_category;
  }

  Sums sums() const {
    Sums sums;
    for (const Segment& s : segments) {
      sums.reserved += s.bytes;
      for (const Block& b : s.blocks) {
        if (b.requested == 0) continue;
        sums.allocated += b.bytes;
        sums.requested += b.requested;
        sums.by_category[static_cast<std::size_t>(b.category)] += b.bytes;
      }
    }
    return sums;
  }

  std::list<Segment> segments;
  Sums peak;  // when most was allocated, the first time
  std::int64_t max_requested = 0, max_reserved = 0, retries = 0;
  memory::CategoryBytes max_by_category{};

 private:
  Block* find(std::int64_t size, int stream, bool small) {
    Block* best = nullptr;
    for (Segment& s : segments)
      for (Block& b : s.blocks)
        if (s.stream == stream && s.small == small && b.requested == 0 && b.bytes >= size &&
            (!best || b.bytes < best->bytes || (b.bytes == best->bytes && b.address < best->address)))
          best = &b;
    return best;
  }

  Block* grow(std::int64_t size, int stream, bool small) {
    std::int64_t bytes = 20 * 1048576;
    if (small) bytes = 2 * 1048576;
    if (size >= 10 * 1048576) bytes = (size + 2097151) / 2097152 * 2097152;
    if (cap_ > 0 && sums().reserved + bytes > cap_) return nullptr;
    void* p = device_.allocate(bytes);
    if (!p) return nullptr;
    segments.push_back(
        {stream, small, bytes, {{reinterpret_cast<std::int64_t>(p), bytes, 0, memory::Category::workspace}}});
    max_reserved = std::max(max_reserved, sums().reserved);
    return &segments.back().blocks.front();
  }

  void note_peaks() {
    const Sums now = sums();
    if (now.allocated > peak.allocated) peak = now;
    max_requested = std::max(max_requested, now.requested);
    for (std::size_t c = 0; c < memory::kCategories; ++c)
      max_by_category[c] = std::max(max_by_category[c], now.by_category[c]);
  }

  FakeDevice& device_;
  std::int64_t cap_;
};

}  // namespace spillway::test
