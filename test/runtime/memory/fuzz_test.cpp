// Random programs against a second allocator, written as plainly as the published rules can be: a list of segments,
// each a list of blocks, every decision by a linear search. Both must agree on every address, size and statistic after
// every event.
#include <list>
#include <optional>
#include <random>
#include <vector>

#include "runtime/memory/caching_allocator.h"
#include "test/fixture.h"
#include "test/runtime/memory/fake_device.h"

using namespace spillway::memory;
using spillway::test::FakeDevice;

namespace {

class NaiveAllocator {
 public:
  struct Block {
    std::int64_t address, bytes;
    bool free;
  };
  struct Segment {
    int stream;
    bool small;
    std::int64_t bytes;
    std::list<Block> blocks;
  };

  explicit NaiveAllocator(FakeDevice& device) : device_(device) {}

  // The address, or nothing when memory is out.
  std::optional<std::int64_t> allocate(std::int64_t bytes, int stream) {
    std::int64_t size = bytes;
    while (size % 512 != 0) ++size;
    const bool small = size <= 1048576;
    Block* best = find(size, stream, small);
    if (!best) best = grow(size, stream, small);
    if (!best) {
      segments.remove_if([&](const Segment& s) {
        if (s.blocks.size() != 1 || !s.blocks.front().free) return false;
        device_.release(reinterpret_cast<void*>(s.blocks.front().address), s.bytes);
        return true;
      });
      best = grow(size, stream, small);
    }
    if (!best) return std::nullopt;
    for (Segment& s : segments)
      for (auto it = s.blocks.begin(); it != s.blocks.end(); ++it)
        if (&*it == best) {
          const std::int64_t rest = it->bytes - size;
          if ((small && rest >= 512) || (!small && rest > 1048576)) {
            s.blocks.insert(std::next(it), Block{it->address + size, rest, true});
            it->bytes = size;
          }
          it->free = false;
        }
    return best->address;
  }

  void free(std::int64_t address) {
    for (Segment& s : segments) {
      for (Block& b : s.blocks)
        if (b.address == address) b.free = true;
      for (auto it = s.blocks.begin(); it != s.blocks.end();) {
        const auto next = std::next(it);
        if (next != s.blocks.end() && it->free && next->free) {
          it->bytes += next->bytes;
          s.blocks.erase(next);
        } else {
          it = next;
        }
      }
    }
  }

  std::int64_t allocated() const {
    std::int64_t sum = 0;
    for (const Segment& s : segments)
      for (const Block& b : s.blocks) sum += b.free ? 0 : b.bytes;
    return sum;
  }
  std::int64_t reserved() const {
    std::int64_t sum = 0;
    for (const Segment& s : segments) sum += s.bytes;
    return sum;
  }

  std::list<Segment> segments;

 private:
  Block* find(std::int64_t size, int stream, bool small) {
    Block* best = nullptr;
    for (Segment& s : segments)
      for (Block& b : s.blocks)
        if (s.stream == stream && s.small == small && b.free && b.bytes >= size &&
            (!best || b.bytes < best->bytes || (b.bytes == best->bytes && b.address < best->address)))
          best = &b;
    return best;
  }
  Block* grow(std::int64_t size, int stream, bool small) {
    std::int64_t bytes = 20 * 1048576;
    if (small) bytes = 2 * 1048576;
    if (size >= 10 * 1048576) bytes = (size + 2097151) / 2097152 * 2097152;
    void* p = device_.allocate(bytes);
    if (!p) return nullptr;
    segments.push_back({stream, small, bytes, {{reinterpret_cast<std::int64_t>(p), bytes, true}}});
    return &segments.back().blocks.front();
  }
  FakeDevice& device_;
};

struct Live {
  Allocation allocation;
  std::int64_t address, bytes;
};

void run_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::int64_t total = std::int64_t{1} << (25 + random() % 4);  // 32 to 256 MiB: memory runs out
  FakeDevice device(total), naive_device(total);
  CachingAllocator allocator(device);
  NaiveAllocator naive(naive_device);
  std::vector<Live> live;
  std::int64_t max_allocated = 0;
  const std::int64_t typical[] = {1, 511, 512, 513, 4096, 1048576, 1048577, 10485759, 10485760, 10485761, 20971520};

  for (int step = 0; step < 300; ++step) {
    if (random() % 40 == 0) {  // the same call of both devices fails
      device.fail_at = device.calls + 1;
      naive_device.fail_at = naive_device.calls + 1;
    }
    if (!live.empty() && random() % 100 < 45) {
      const std::size_t victim = random() % live.size();
      naive.free(live[victim].address);
      live[victim].allocation.reset();
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      std::int64_t bytes = typical[random() % std::size(typical)];
      if (random() % 2) bytes = 1 + static_cast<std::int64_t>(random() % (std::uint64_t{1} << (1 + random() % 24)));
      const int stream = static_cast<int>(random() % 2);
      const auto expected = naive.allocate(bytes, stream);
      std::optional<std::int64_t> got;
      Allocation a;
      try {
        a = allocator.allocate(bytes, static_cast<Category>(random() % kCategories),
                               reinterpret_cast<cudaStream_t>(static_cast<std::intptr_t>(stream)), "fuzz");
        got = reinterpret_cast<std::int64_t>(a.data());
      } catch (const OutOfMemory&) {
      }
      BOOST_REQUIRE(got == expected);
      if (got) live.push_back({std::move(a), *got, bytes});
    }
    allocator.check_invariants();
    BOOST_REQUIRE_EQUAL(allocator.stats().allocated, naive.allocated());
    BOOST_REQUIRE_EQUAL(allocator.stats().reserved, naive.reserved());
    max_allocated = std::max(max_allocated, naive.allocated());
    BOOST_REQUIRE_EQUAL(allocator.stats().max_allocated, max_allocated);
    for (std::size_t i = 0; i < live.size(); ++i)  // no two live blocks overlap
      for (std::size_t j = i + 1; j < live.size(); ++j)
        BOOST_REQUIRE(live[i].address + live[i].bytes <= live[j].address ||
                      live[j].address + live[j].bytes <= live[i].address);
  }
  live.clear();
  BOOST_REQUIRE_EQUAL(allocator.stats().allocated, 0);
  allocator.release_cached();
  BOOST_REQUIRE_EQUAL(allocator.stats().reserved, 0);
  BOOST_REQUIRE(device.live.empty());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fuzz)

BOOST_AUTO_TEST_CASE(random_programs_agree_with_a_naive_allocator_after_every_event) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) BOOST_TEST_CONTEXT("seed " << seed) run_program(seed);
}

BOOST_AUTO_TEST_SUITE_END()
