// The published cases of PyTorch's caching allocator, each from empty, and the rules one by one, with and without
// knobs; and who listens to it.
#include <limits>
#include <string>
#include <vector>

#include "runtime/memory/caching_allocator.h"
#include "test/fixture.h"
#include "test/runtime/memory/fake_device.h"

using namespace spillway;
using namespace spillway::memory;
using spillway::test::FakeDevice;

namespace {
constexpr std::int64_t kMiB = 1 << 20;
const cudaStream_t kStreamA = nullptr;
const cudaStream_t kStreamB = reinterpret_cast<cudaStream_t>(64);

struct Empty {
  FakeDevice device;
  CachingAllocator allocator{device};
  Allocation malloc(std::int64_t bytes, cudaStream_t stream = kStreamA, Category category = Category::workspace) {
    Allocation a = allocator.allocate(bytes, category, stream, "test");
    allocator.check_invariants();
    return a;
  }
  const Stats& stats() const { return allocator.stats(); }
  static std::int64_t address(const Allocation& a) { return reinterpret_cast<std::int64_t>(a.data()); }
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(published_cases, Empty)

BOOST_AUTO_TEST_CASE(one_byte_takes_512_of_a_2_mib_segment) {
  const Allocation a = malloc(1);
  BOOST_TEST(stats().allocated == 512);
  BOOST_TEST(stats().reserved == 2097152);
}

BOOST_AUTO_TEST_CASE(one_mib_follows_in_the_same_segment_at_offset_512) {
  const Allocation a = malloc(1), b = malloc(kMiB);
  BOOST_TEST(address(b) - address(a) == 512);
  BOOST_TEST(stats().reserved == 2097152);
}

BOOST_AUTO_TEST_CASE(one_byte_more_than_a_mib_takes_1049088_of_a_20_mib_segment) {
  const Allocation a = malloc(1048577);
  BOOST_TEST(stats().allocated == 1049088);
  BOOST_TEST(stats().reserved == 20971520);
}

BOOST_AUTO_TEST_CASE(ten_mib_gets_a_segment_of_its_own_unsplit) {
  const Allocation a = malloc(10 * kMiB);
  BOOST_TEST(stats().reserved == 10485760);
  BOOST_TEST(allocator.snapshot()[0].blocks.size() == 1U);
}

BOOST_AUTO_TEST_CASE(ten_mib_and_a_byte_round_up_to_12_mib) {
  const Allocation a = malloc(10 * kMiB + 1);
  BOOST_TEST(stats().reserved == 12582912);
  BOOST_TEST(stats().allocated == 10 * kMiB + 512);  // the rest, more than 1 MiB, is split off
}

BOOST_AUTO_TEST_CASE(just_below_ten_mib_shares_a_20_mib_segment) {
  const Allocation a = malloc(10 * kMiB - 512), b = malloc(10 * kMiB - 512);
  BOOST_TEST(address(b) - address(a) == 10 * kMiB - 512);
  BOOST_TEST(stats().reserved == 20 * kMiB);
}

BOOST_AUTO_TEST_CASE(nineteen_mib_take_a_freed_20_mib_block_unsplit) {
  malloc(20 * kMiB).reset();
  const Allocation a = malloc(19 * kMiB);
  BOOST_TEST(stats().reserved == 20 * kMiB);
  BOOST_TEST(stats().allocated == 20 * kMiB);  // the remainder is not more than 1 MiB
  BOOST_TEST(stats().requested == 19 * kMiB);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(rules, Empty)

BOOST_AUTO_TEST_CASE(a_small_block_is_split_for_a_remainder_of_512_bytes) {
  const Allocation fill = malloc(kMiB), a = malloc(kMiB - 512);
  BOOST_TEST(stats().allocated == 2 * kMiB - 512);
  BOOST_TEST(address(malloc(512)) - address(fill) == 2 * kMiB - 512);
}

BOOST_AUTO_TEST_CASE(a_large_block_is_split_only_for_a_remainder_of_more_than_a_mib) {
  malloc(12 * kMiB).reset();
  BOOST_TEST(stats().allocated == 0);
  Allocation a = malloc(11 * kMiB);
  BOOST_TEST(stats().allocated == 12 * kMiB);
  a.reset();
  a = malloc(11 * kMiB - 512);
  BOOST_TEST(stats().allocated == 11 * kMiB - 512);
  BOOST_TEST(stats().reserved == 12 * kMiB);
}

BOOST_AUTO_TEST_CASE(a_block_next_to_a_live_one_merges_only_with_the_free_side) {
  Allocation a = malloc(3 * kMiB), b = malloc(3 * kMiB), c = malloc(3 * kMiB);
  a.reset();
  b.reset();
  const auto blocks = allocator.snapshot()[0].blocks;
  BOOST_TEST(blocks.size() == 3U);  // a and b as one, c, the rest of the segment
  BOOST_TEST(blocks[0].bytes == 6 * kMiB);
  BOOST_TEST((blocks[1].state == BlockState::allocated));
}

BOOST_AUTO_TEST_CASE(an_allocation_that_moves_is_freed_once) {
  Allocation a = malloc(100), b = std::move(a);
  BOOST_TEST(!a);
  BOOST_TEST(a.bytes() == 0);
  BOOST_TEST(b.bytes() == 100);
  b = malloc(2000);  // the first block goes when the second has come
  BOOST_TEST(stats().allocated == 2048);
  Allocation& same = b;
  b = std::move(same);
  BOOST_TEST(b.bytes() == 2000);
  b.reset();
  b.reset();
  BOOST_TEST(stats().frees == 2);
  BOOST_TEST(stats().allocated == 0);
}

BOOST_AUTO_TEST_CASE(a_freed_block_merges_with_both_neighbours) {
  Allocation a = malloc(3 * kMiB), b = malloc(3 * kMiB), c = malloc(3 * kMiB);
  a.reset();
  c.reset();
  b.reset();
  allocator.check_invariants();
  const auto segments = allocator.snapshot();
  BOOST_TEST(segments.size() == 1U);
  BOOST_TEST(segments[0].blocks.size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_smallest_block_that_fits_is_taken_and_the_lowest_among_equals) {
  Allocation big = malloc(8 * kMiB), wall1 = malloc(2 * kMiB), fit = malloc(4 * kMiB), wall2 = malloc(2 * kMiB);
  const std::int64_t where = address(fit);
  big.reset();
  fit.reset();
  BOOST_TEST(address(malloc(4 * kMiB)) == where);  // not the 8 MiB hole before it
  FakeDevice other;
  CachingAllocator fresh(other);
  std::vector<Allocation> equal;
  for (int i = 0; i < 8; ++i) equal.push_back(fresh.allocate(kMiB / 2, Category::workspace, kStreamA, "x"));
  const std::int64_t lowest = address(equal[0]);
  equal[4].reset();
  equal[0].reset();
  equal[2].reset();
  BOOST_TEST(address(fresh.allocate(kMiB / 2, Category::workspace, kStreamA, "x")) == lowest);
}

BOOST_AUTO_TEST_CASE(a_block_is_handed_out_again_only_on_its_own_stream) {
  Allocation a = malloc(3 * kMiB, kStreamA);
  const std::int64_t where = address(a);
  a.reset();
  const Allocation b = malloc(3 * kMiB, kStreamB);
  BOOST_TEST(address(b) != where);
  BOOST_TEST(stats().reserved == 40 * kMiB);
  BOOST_TEST(address(malloc(3 * kMiB, kStreamA)) == where);
}

BOOST_AUTO_TEST_CASE(a_small_request_never_takes_from_the_large_pool) {
  malloc(5 * kMiB).reset();
  const Allocation a = malloc(1000);
  BOOST_TEST(stats().reserved == 22 * kMiB);
}

BOOST_AUTO_TEST_CASE(the_categories_sum_to_what_is_allocated_and_the_peak_remembers_them) {
  Allocation p = malloc(3 * kMiB, kStreamA, Category::parameter);
  Allocation w = malloc(5 * kMiB, kStreamA, Category::workspace);
  w.reset();
  const Allocation g = malloc(kMiB, kStreamA, Category::gradient);
  const Stats& s = stats();
  BOOST_TEST(s.max_allocated == 8 * kMiB);
  BOOST_TEST(s.at_peak[static_cast<int>(Category::workspace)] == 5 * kMiB);
  BOOST_TEST(s.at_peak[static_cast<int>(Category::gradient)] == 0);
  BOOST_TEST(s.max_by_category[static_cast<int>(Category::gradient)] == kMiB);
  allocator.reset_peaks();
  BOOST_TEST(s.max_allocated == 4 * kMiB);  // live blocks stay counted
  BOOST_TEST(s.at_peak[static_cast<int>(Category::gradient)] == kMiB);
  BOOST_TEST(s.max_reserved == s.reserved);
}

BOOST_AUTO_TEST_CASE(nothing_is_allocated_for_zero_bytes_and_a_negative_or_huge_size_is_refused) {
  BOOST_TEST(!malloc(0));
  BOOST_CHECK_THROW(malloc(-1), Error);
  BOOST_CHECK_THROW(malloc(std::numeric_limits<std::int64_t>::max()), Error);
  BOOST_TEST(stats().reserved == 0);
}

BOOST_AUTO_TEST_CASE(every_event_is_told_when_a_snapshot_already_shows_it) {
  static constexpr const char* kNames[] = {"allocate", "free", "segment_allocate", "segment_release"};
  std::string told;
  const auto listening = allocator.listen([&](const MemoryEvent& e, const Stats& s) {
    BOOST_CHECK_NO_THROW(allocator.check_invariants());
    std::int64_t sum = 0;
    for (const std::int64_t bytes : s.by_category) sum += bytes;
    BOOST_TEST(sum == s.allocated);
    told += kNames[static_cast<int>(e.kind)] + (" " + std::to_string(e.bytes)) + ":";
    for (const auto& segment : allocator.snapshot())
      for (const auto& block : segment.blocks)
        told += (block.state == BlockState::allocated ? " live " : " free ") + std::to_string(block.bytes);
    told += '\n';
  });
  malloc(100).reset();
  allocator.release_cached();
  BOOST_TEST(told ==
             "segment_allocate 2097152: free 2097152\n"
             "allocate 512: live 512 free 2096640\n"
             "free 512: free 2097152\n"
             "segment_release 2097152:\n");
}

BOOST_AUTO_TEST_CASE(an_allocation_is_told_with_its_owner_its_request_and_its_stream) {
  int told = 0;
  auto listening = allocator.listen([&](const MemoryEvent& e, const Stats&) {
    if (e.kind != MemoryEvent::Kind::allocate) return;
    ++told;
    BOOST_TEST(e.owner == "layer 3 gate");
    BOOST_TEST(e.requested == 1000);
    BOOST_TEST(e.bytes == 1024);
    BOOST_TEST((e.category == Category::activation && e.stream == kStreamB && e.address != nullptr));
  });
  const Allocation a = allocator.allocate(1000, Category::activation, kStreamB, "layer 3 gate");
  listening.stop();
  const Allocation b = malloc(1);
  BOOST_TEST(told == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(knobs)

BOOST_AUTO_TEST_CASE(a_segment_that_rounding_made_oversize_serves_the_request_that_it_was_made_for) {
  FakeDevice device;
  Allocator allocator(device, std::make_unique<CachingPolicy>(device, CachingOptions{32 * kMiB, 0, 0}));
  const Allocation a = allocator.allocate(31 * kMiB, Category::workspace, kStreamA, "a");
  BOOST_TEST(allocator.stats().reserved == 32 * kMiB);
  allocator.check_invariants();
}

BOOST_AUTO_TEST_CASE(an_oversize_block_serves_oversize_requests_with_less_than_20_mib_to_spare) {
  FakeDevice device;
  Allocator allocator(device, std::make_unique<CachingPolicy>(device, CachingOptions{21 * kMiB, 0, 0}));
  const auto reserved_after = [&](std::int64_t bytes) {
    const Allocation a = allocator.allocate(bytes, Category::workspace, kStreamA, "a");
    return allocator.stats().reserved / kMiB;
  };
  BOOST_TEST(reserved_after(42 * kMiB) == 42);
  BOOST_TEST(reserved_after(22 * kMiB + 512) == 42);  // 512 bytes less than 20 MiB are to spare
  BOOST_TEST(reserved_after(22 * kMiB) == 42 + 22);
  BOOST_TEST(reserved_after(kMiB + 512) == 42 + 22 + 20);  // not oversize: neither of them
}

BOOST_AUTO_TEST_CASE(a_knob_that_makes_no_sense_is_refused) {
  FakeDevice device;
  for (const CachingOptions bad :
       {CachingOptions{20 * kMiB, 0, 0}, CachingOptions{32 * kMiB + 512, 0, 0}, CachingOptions{0, 3, 0},
        CachingOptions{0, 128, 0}, CachingOptions{0, 0, 1}, CachingOptions{0, 0, -0.1}})
    BOOST_CHECK_THROW(CachingPolicy(device, bad), Error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(listeners, Empty)

BOOST_AUTO_TEST_CASE(what_a_listener_throws_at_an_allocation_undoes_it) {
  const auto listening = allocator.listen([](const MemoryEvent& e, const Stats&) {
    if (e.kind == MemoryEvent::Kind::allocate) throw Error("planted");
  });
  BOOST_CHECK_THROW(malloc(1), Error);
  BOOST_TEST(allocator.stats().allocated == 0);
}

BOOST_AUTO_TEST_CASE(what_a_listener_throws_at_a_free_the_next_allocation_throws_once) {
  const auto listening = allocator.listen([](const MemoryEvent& e, const Stats&) {
    if (e.kind == MemoryEvent::Kind::free) throw Error("planted");
  });
  malloc(1).reset();
  BOOST_CHECK_THROW(malloc(1), Error);
  const Allocation a = malloc(1);
  BOOST_TEST(allocator.stats().allocated == 512);
}

BOOST_AUTO_TEST_CASE(two_listeners_hear_the_same_and_one_that_stops_hears_no_more) {
  int first = 0, second = 0;
  auto one = allocator.listen([&](const MemoryEvent&, const Stats&) { ++first; });
  const auto two = allocator.listen([&](const MemoryEvent&, const Stats&) { ++second; });
  auto moved = std::move(one);
  malloc(1).reset();  // a segment, a block and its free
  moved.stop();
  malloc(1).reset();
  BOOST_TEST(first == 3);
  BOOST_TEST(second == 5);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(out_of_memory)

BOOST_AUTO_TEST_CASE(a_miss_asks_the_device_then_gives_back_cached_segments_and_asks_again) {
  FakeDevice device(30 * kMiB);
  CachingAllocator allocator(device);
  allocator.allocate(20 * kMiB, Category::workspace, kStreamA, "first").reset();
  const Allocation a = allocator.allocate(24 * kMiB, Category::workspace, kStreamA, "second");
  BOOST_TEST(device.told == "allocate no synchronize release allocate ");
  BOOST_TEST(allocator.stats().retries == 1);
  BOOST_TEST(allocator.stats().reserved == 24 * kMiB);
}

BOOST_AUTO_TEST_CASE(a_segment_that_is_partly_in_use_is_never_given_back) {
  FakeDevice device(42 * kMiB);
  CachingAllocator allocator(device);
  Allocation a = allocator.allocate(3 * kMiB, Category::workspace, kStreamA, "a");
  const Allocation b = allocator.allocate(100, Category::workspace, kStreamB, "b");
  allocator.allocate(20 * kMiB, Category::workspace, kStreamB, "c").reset();
  const std::size_t segments = device.live.size();
  BOOST_CHECK_THROW(allocator.allocate(30 * kMiB, Category::workspace, kStreamA, "d"), OutOfMemory);
  BOOST_TEST(device.live.size() == segments - 1);  // only c's
  BOOST_TEST(allocator.stats().reserved == 22 * kMiB);
  BOOST_TEST(allocator.stats().allocated == 3 * kMiB + 512);
}

BOOST_AUTO_TEST_CASE(a_device_that_is_lost_in_a_call_leaves_the_allocator_as_it_was) {
  FakeDevice device(40 * kMiB);
  CachingAllocator allocator(device);
  const Allocation a = allocator.allocate(3 * kMiB, Category::parameter, kStreamA, "a");
  allocator.allocate(100, Category::workspace, kStreamA, "b").reset();
  const Stats before = allocator.stats();
  device.lost = true;
  BOOST_CHECK_EXCEPTION(allocator.allocate(19 * kMiB, Category::workspace, kStreamA, "c"), Error,
                        [](const Error& e) { return std::string(e.what()) == "the device is lost"; });
  BOOST_CHECK_THROW(allocator.release_cached(), Error);
  allocator.check_invariants();
  BOOST_TEST(allocator.stats().reserved == before.reserved);
  BOOST_TEST(allocator.stats().allocations == before.allocations);
  device.lost = false;
  BOOST_TEST(static_cast<bool>(allocator.allocate(10 * kMiB, Category::workspace, kStreamA, "d")));
}

BOOST_AUTO_TEST_CASE(the_message_is_one_line_that_names_everything) {
  FakeDevice device(60 * kMiB);
  CachingAllocator allocator(device);
  const Allocation a = allocator.allocate(12 * kMiB, Category::parameter, kStreamA, "weights");
  const Allocation b = allocator.allocate(3 * kMiB, Category::parameter, kStreamA, "bias");  // leaves 17 MiB of 20
  allocator.set_activity("backward, layer 3, attention");
  BOOST_CHECK_EXCEPTION(allocator.allocate(40 * kMiB, Category::activation, kStreamA, "layer 3 gate"), OutOfMemory,
                        [](const OutOfMemory& e) {
                          BOOST_TEST(e.requested == 40 * kMiB);
                          BOOST_TEST(e.allocated == 15 * kMiB);
                          BOOST_TEST(e.reserved == 32 * kMiB);
                          BOOST_TEST(e.cap == 60 * kMiB);
                          BOOST_TEST(e.what() ==
                                     "out of memory: layer 3 gate asked for 40.00 MiB (41943040 bytes) of activation; "
                                     "allocated 15.00 MiB (15728640 bytes), reserved 32.00 MiB (33554432 bytes), "
                                     "cap 60.00 MiB (62914560 bytes), free on the device 28.00 MiB (29360128 bytes), "
                                     "largest free block 17.00 MiB (17825792 bytes); policy caching, inactive "
                                     "split 17.00 MiB; "
                                     "during backward, layer 3, attention");
                          return true;
                        });
  allocator.check_invariants();
  const Allocation c = allocator.allocate(12 * kMiB, Category::activation, kStreamA, "smaller");  // it still works
  BOOST_TEST(allocator.stats().ooms == 1);
}

BOOST_AUTO_TEST_CASE(the_cap_limits_what_is_reserved) {
  FakeDevice device;
  CachingAllocator allocator(device, {40 * kMiB, false});
  const Allocation a = allocator.allocate(3 * kMiB, Category::workspace, kStreamA, "a");
  const Allocation b = allocator.allocate(20 * kMiB, Category::workspace, kStreamA, "b");
  BOOST_CHECK_THROW(allocator.allocate(20 * kMiB, Category::workspace, kStreamA, "c"), OutOfMemory);
  BOOST_TEST(allocator.stats().reserved == 40 * kMiB);
}

BOOST_AUTO_TEST_CASE(a_device_that_fails_once_costs_a_retry_and_nothing_else) {
  FakeDevice device;
  CachingAllocator allocator(device);
  device.fail_at = 1;
  const Allocation a = allocator.allocate(100, Category::workspace, kStreamA, "a");
  BOOST_TEST(static_cast<bool>(a));
  BOOST_TEST(allocator.stats().retries == 1);
}

BOOST_AUTO_TEST_CASE(everything_goes_back_to_the_device_in_the_end) {
  FakeDevice device;
  {
    CachingAllocator allocator(device);
    Allocation a = allocator.allocate(100, Category::workspace, kStreamA, "a");
    Allocation b = allocator.allocate(30 * kMiB, Category::workspace, kStreamB, "b");
  }
  BOOST_TEST(device.live.empty());
}

BOOST_AUTO_TEST_SUITE_END()
