// Blocks that other streams used, and what happens when something fails half way: nothing is used too early, nothing is
// lost, and the next call works.
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
const cudaStream_t kStream = nullptr;
const cudaStream_t kSlow = reinterpret_cast<cudaStream_t>(64);
const cudaStream_t kQuick = reinterpret_cast<cudaStream_t>(128);

struct Shared {
  FakeDevice device{40 * kMiB};
  CachingAllocator allocator{device};
  Allocation malloc(std::int64_t bytes) {
    Allocation a = allocator.allocate(bytes, Category::workspace, kStream, "test");
    allocator.check_invariants();
    return a;
  }
  Allocation used_by(std::int64_t bytes, const std::vector<cudaStream_t>& streams) {
    Allocation a = malloc(bytes);
    for (const cudaStream_t s : streams) a.record_use(s);
    return a;
  }
  Breakdown parts() const { return breakdown_of(allocator.snapshot()); }
  void finish(cudaStream_t stream) { device.streams[stream].done = device.streams[stream].issued; }
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(pending, Shared)

BOOST_AUTO_TEST_CASE(a_block_that_another_stream_used_is_pending_until_that_stream_has_passed) {
  used_by(4 * kMiB, {kSlow}).reset();
  BOOST_TEST(parts().pending == 4 * kMiB);
  BOOST_TEST(allocator.stats().allocated == 0);
  const void* const other = malloc(4 * kMiB).data();
  BOOST_TEST(parts().pending == 4 * kMiB);
  finish(kSlow);
  const Allocation again = malloc(4 * kMiB);
  BOOST_TEST(parts().pending == 0);
  BOOST_TEST(again.data() < other);  // the lower address is the first block's
}

BOOST_AUTO_TEST_CASE(a_stalled_stream_does_not_hold_back_anothers_blocks) {
  used_by(4 * kMiB, {kSlow}).reset();
  used_by(4 * kMiB, {kQuick}).reset();
  finish(kQuick);
  const Allocation a = malloc(512 * 1024);
  BOOST_TEST(parts().pending == 4 * kMiB);
}

BOOST_AUTO_TEST_CASE(a_block_that_two_streams_used_waits_for_both) {
  used_by(4 * kMiB, {kSlow, kQuick, kSlow}).reset();
  for (const cudaStream_t s : {kQuick, kSlow}) {
    const Allocation a = malloc(1);
    BOOST_TEST(parts().pending == 4 * kMiB);
    finish(s);
  }
  const Allocation a = malloc(1);
  BOOST_TEST(parts().pending == 0);
}

BOOST_AUTO_TEST_CASE(a_full_device_with_one_pending_block_serves_the_next_request) {
  const Allocation stays = malloc(4 * kMiB), stays_too = malloc(20 * kMiB);  // two segments: the device is full
  used_by(8 * kMiB, {kSlow}).reset();
  BOOST_TEST(allocator.stats().reserved == 40 * kMiB);
  const Allocation a = malloc(16 * kMiB);  // 8 pending and the 8 behind it
  BOOST_TEST(allocator.stats().retries == 1);
  BOOST_TEST(device.told.ends_with("no synchronize "));
}

BOOST_AUTO_TEST_CASE(cached_memory_goes_back_only_after_the_device_is_idle) {
  used_by(20 * kMiB, {kSlow}).reset();
  allocator.release_cached();
  BOOST_TEST(device.told.ends_with("synchronize release "));
  BOOST_TEST(allocator.stats().reserved == 0);
}

BOOST_AUTO_TEST_CASE(without_a_mark_only_an_idle_device_is_proof) {
  Allocation a = used_by(4 * kMiB, {kSlow, kQuick});
  device.no_marks = true;
  a.reset();
  finish(kSlow);
  finish(kQuick);
  malloc(1).reset();
  BOOST_TEST(parts().pending == 4 * kMiB);
  allocator.release_cached();
  BOOST_TEST(allocator.stats().reserved == 0);
}

BOOST_AUTO_TEST_CASE(a_device_that_is_lost_while_blocks_are_pending_throws_and_loses_none) {
  used_by(4 * kMiB, {kQuick}).reset();
  used_by(4 * kMiB, {kSlow}).reset();
  finish(kQuick);
  device.lost = true;
  BOOST_CHECK_THROW(malloc(1), Error);
  allocator.check_invariants();
  device.lost = false;
  const Allocation a = malloc(1);
  BOOST_TEST(parts().pending == 4 * kMiB);
}

BOOST_AUTO_TEST_CASE(poison_waits_for_the_streams_that_used_the_block) {
  CachingAllocator poisoned(device, {0, true});
  Allocation a = poisoned.allocate(512, Category::workspace, kStream, "a");
  a.record_use(kSlow);
  BOOST_REQUIRE_EQUAL(device.orders.size(), 1U);
  BOOST_TEST((device.orders[0] == std::pair(kSlow, kStream)));
}

BOOST_AUTO_TEST_SUITE_END()
