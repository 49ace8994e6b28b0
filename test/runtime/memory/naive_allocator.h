// naive_allocator.h - the published rules a second time, as plainly as they can be written: a list of segments, each a
// list of blocks, every decision by a linear search, every statistic a sum over all blocks. The fuzz test compares the
// allocator with it; it shares no code with the allocator, so that a mistake would have to be made twice.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <optional>

#include "runtime/memory/category.h"
#include "test/runtime/memory/fake_device.h"

namespace spillway::test {

class NaiveAllocator {
 public:
  struct Block {
    std::int64_t address, bytes, requested;  // requested 0: free, or pending
    memory::Category category;
    std::map<int, std::int64_t> users;  // stream -> while pending, the work it must have done
    bool pending = false;
    std::int64_t free_since = 0;  // in look-ups for large blocks
    bool free() const { return requested == 0 && !pending; }
  };
  struct Segment {
    int stream;
    bool small;
    std::int64_t bytes;
    std::list<Block> blocks;
    bool unused() const { return blocks.size() == 1 && blocks.front().free(); }
  };
  struct Sums {
    std::int64_t allocated = 0, requested = 0, reserved = 0;
    memory::CategoryBytes by_category{};
  };
  struct Options {
    std::int64_t max_split = 0, divisions = 0;
    double gc = 0;
  };

  NaiveAllocator(FakeDevice& device, std::int64_t cap, Options options)
      : device_(device), cap_(cap), options_(options) {}

  // The address, or nothing when memory is out.
  std::optional<std::int64_t> allocate(std::int64_t bytes, int stream, memory::Category category) {
    const std::int64_t size = rounded(bytes);
    const bool small = size <= 1048576;
    free_what_is_done();
    if (!small) ++large_lookups_;
    Block* best = find(size, stream, small);
    if (!best) collect_garbage();
    if (!best) best = grow(size, stream, small);
    if (!best && !small && release_oversize(size, stream)) best = grow(size, stream, small);
    if (!best) {
      ++retries;
      release_cached();
      best = find(size, stream, small);
      if (!best) best = grow(size, stream, small);
    }
    if (!best) return std::nullopt;
    for (Segment& s : segments)
      for (auto it = s.blocks.begin(); it != s.blocks.end(); ++it)
        if (&*it == best) {
          const std::int64_t rest = it->bytes - size;
          if ((small && rest >= 512) || (!small && rest > 1048576 && !oversize(size))) {
            s.blocks.insert(std::next(it), Block{it->address + size, rest, 0, category, {}, false, large_lookups_});
            it->bytes = size;
          }
          it->requested = bytes;
          it->category = category;
        }
    note_peaks();
    return best->address;
  }

  void use(std::int64_t address, int stream) { find(address).users[stream] = 0; }

  void free(std::int64_t address) {
    Block& block = find(address);
    block.requested = 0;
    block.pending = !block.users.empty();
    for (auto& [stream, work] : block.users) work = ++device_.streams[handle(stream)].issued;
    if (!block.pending) merge(address);
  }

  void release_cached() {
    device_.synchronize();
    free_what_is_done();
    segments.remove_if([&](const Segment& s) {
      if (!s.unused()) return false;
      give_back(s);
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

  static cudaStream_t handle(int stream) { return reinterpret_cast<cudaStream_t>(static_cast<std::intptr_t>(stream)); }

  std::list<Segment> segments;
  Sums peak;  // when most was allocated, the first time
  std::int64_t max_requested = 0, max_reserved = 0, retries = 0;
  memory::CategoryBytes max_by_category{};

 private:
  std::int64_t rounded(std::int64_t bytes) const {
    std::int64_t step = 512;
    if (options_.divisions > 1 && bytes > 512 * options_.divisions) {
      std::int64_t power = 1;
      while (power * 2 <= bytes) power *= 2;
      step = power / options_.divisions;
    }
    std::int64_t size = bytes / step * step;
    return size < bytes ? size + step : size;
  }
  bool oversize(std::int64_t bytes) const { return options_.max_split > 0 && bytes >= options_.max_split; }

  Block& find(std::int64_t address) {
    for (Segment& s : segments)
      for (Block& b : s.blocks)
        if (b.address == address) return b;
    throw Error("no such block");
  }

  Block* find(std::int64_t size, int stream, bool small) {
    Block* best = nullptr;
    for (Segment& s : segments)
      for (Block& b : s.blocks)
        if (s.stream == stream && s.small == small && b.free() && b.bytes >= size &&
            (!best || b.bytes < best->bytes || (b.bytes == best->bytes && b.address < best->address)))
          best = &b;
    if (best && !small && oversize(best->bytes)) {
      if (!oversize(size)) return nullptr;
      if (best->bytes - size >= 20 * 1048576) return nullptr;
    }
    return best;
  }

  void merge(std::int64_t freed) {
    for (Segment& s : segments) {
      for (Block& b : s.blocks)
        if (b.address == freed) b.free_since = large_lookups_;
      for (auto it = s.blocks.begin(); it != s.blocks.end();) {
        const auto next = std::next(it);
        if (next != s.blocks.end() && it->free() && next->free()) {
          it->bytes += next->bytes;
          it->free_since = large_lookups_;
          s.blocks.erase(next);
        } else {
          it = next;
        }
      }
    }
  }

  void free_what_is_done() {
    for (bool again = true; again;) {
      again = false;
      for (Segment& s : segments)
        for (Block& b : s.blocks) {
          if (!b.pending || !std::all_of(b.users.begin(), b.users.end(), [&](const auto& user) {
                return device_.streams[handle(user.first)].done >= user.second;
              }))
            continue;
          b.pending = false;
          b.users.clear();
          merge(b.address);
          again = true;
          break;
        }
    }
  }

  Block* grow(std::int64_t size, int stream, bool small) {
    std::int64_t bytes = 20 * 1048576;
    if (small) bytes = 2 * 1048576;
    if (size >= 10 * 1048576) bytes = (size + 2097151) / 2097152 * 2097152;
    if (cap_ > 0 && sums().reserved + bytes > cap_) return nullptr;
    void* p = device_.allocate(bytes);
    if (!p) return nullptr;
    segments.push_back({stream,
                        small,
                        bytes,
                        {{reinterpret_cast<std::int64_t>(p), bytes, 0, memory::Category::workspace, {}, false, 0}}});
    max_reserved = std::max(max_reserved, sums().reserved);
    return &segments.back().blocks.front();
  }

  void give_back(const Segment& s) {
    device_.synchronize();
    device_.release(reinterpret_cast<void*>(s.blocks.front().address), s.bytes);
  }

  void collect_garbage() {
    std::int64_t total = device_.info().total_bytes;
    if (cap_ > 0) total = std::min(total, cap_);
    const double limit = options_.gc * static_cast<double>(total);
    const std::int64_t reserved = sums().reserved;
    if (options_.gc == 0 || static_cast<double>(reserved) <= limit) return;
    const std::int64_t wanted = reserved - static_cast<std::int64_t>(limit);
    std::int64_t got = 0;
    while (got < wanted) {
      double ages = 0, count = 0;
      for (const Segment& s : segments)
        if (!s.small && s.unused()) ages += static_cast<double>(large_lookups_ - s.blocks.front().free_since), ++count;
      const auto before = segments.size();
      segments.remove_if([&](const Segment& s) {
        if (s.small || !s.unused() || static_cast<double>(large_lookups_ - s.blocks.front().free_since) < ages / count)
          return false;
        got += s.bytes;
        give_back(s);
        return true;
      });
      if (segments.size() == before) return;
    }
  }

  // The best fitting oversize segment, else the largest ones, until they are as much as is needed.
  bool release_oversize(std::int64_t size, int stream) {
    if (options_.max_split == 0) return false;
    const std::int64_t wanted = std::max(size, options_.max_split);
    const auto of_stream = [&](const Segment& s) {
      return !s.small && s.stream == stream && s.unused() && oversize(s.bytes);
    };
    auto best = segments.end();
    for (auto it = segments.begin(); it != segments.end(); ++it)
      if (of_stream(*it) && it->bytes >= wanted &&
          (best == segments.end() || it->bytes < best->bytes ||
           (it->bytes == best->bytes && it->blocks.front().address < best->blocks.front().address)))
        best = it;
    if (best != segments.end()) {
      give_back(*best);
      segments.erase(best);
      return true;
    }
    std::int64_t got = 0;
    while (got < wanted) {
      auto largest = segments.end();
      for (auto it = segments.begin(); it != segments.end(); ++it)
        if (of_stream(*it) &&
            (largest == segments.end() || it->bytes > largest->bytes ||
             (it->bytes == largest->bytes && it->blocks.front().address > largest->blocks.front().address)))
          largest = it;
      if (largest == segments.end()) return false;
      got += largest->bytes;
      give_back(*largest);
      segments.erase(largest);
    }
    return true;
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
  Options options_;
  std::int64_t large_lookups_ = 0;
};

}  // namespace spillway::test
