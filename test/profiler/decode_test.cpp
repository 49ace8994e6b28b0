// decode_test.cpp - CUPTI's records as bytes, laid out here by the offsets of the published headers and not by any
// struct, and what the decoder reads of them.
#include "profiler/decode.h"

#include <cstring>
#include <string>
#include <vector>

#include "profiler/range.h"
#include "test/fixture.h"

namespace spillway::test {
namespace {

using namespace spillway::profiler;

// cupti_activity.h of CUDA 12.4, 64-bit.
enum : std::uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kRuntime = 5,
  kKernel = 10,
  kOverhead = 17,
  kSync = 38,
  kExternal = 39,
  kMemory2 = 49,
  kMemoryPool = 50
};

struct Bytes {
  std::vector<std::uint64_t> words;  // 8-byte aligned
  std::size_t at = 0;                // of the record begun last

  Bytes& record(std::uint32_t kind, std::size_t bytes) {
    at = words.size() * 8;
    words.resize(words.size() + bytes / 8);
    return u32(0, kind);
  }
  Bytes& put(std::size_t offset, const void* value, std::size_t bytes) {
    std::memcpy(reinterpret_cast<char*>(words.data()) + at + offset, value, bytes);
    return *this;
  }
  Bytes& u8(std::size_t offset, std::uint8_t v) { return put(offset, &v, sizeof v); }
  Bytes& u32(std::size_t offset, std::uint32_t v) { return put(offset, &v, sizeof v); }
  Bytes& u64(std::size_t offset, std::uint64_t v) { return put(offset, &v, sizeof v); }

  Bytes& kernel(std::uint64_t start, std::uint64_t end, std::uint32_t stream, std::uint32_t correlation,
                const char* name) {
    return record(kKernel, 208)
        .u64(16, start)
        .u64(24, end)
        .u32(48, stream)
        .u32(92, correlation)
        .u64(104, reinterpret_cast<std::uintptr_t>(name));
  }
  Bytes& copy(std::uint8_t kind, std::uint64_t bytes, std::uint64_t start, std::uint64_t end, std::uint32_t stream,
              std::uint32_t correlation) {
    return record(kMemcpy, 88)
        .u8(4, kind)
        .u64(8, bytes)
        .u64(16, start)
        .u64(24, end)
        .u32(40, stream)
        .u32(44, correlation);
  }
  Bytes& external(std::uint32_t kind, std::uint64_t id, std::uint32_t correlation) {
    return record(kExternal, 24).u32(4, kind).u64(8, id).u32(16, correlation);
  }
  Bytes& memory(std::uint32_t operation, std::uint32_t kind, std::uint64_t bytes, std::uint64_t at_time) {
    return record(kMemory2, 120).u32(4, operation).u32(8, kind).u64(24, bytes).u64(32, at_time);
  }
  RecordBytes span() { return {reinterpret_cast<std::uint8_t*>(words.data()), words.size() * 8}; }
};

constexpr std::uint32_t kRange = 3, kWork = 4;  // CUSTOM0, CUSTOM1
constexpr Nanoseconds kOrigin = 1'000'000;

Recording recording_of(std::vector<RecordBytes> buffers) {
  Recording r;
  r.buffers = std::move(buffers);
  r.window = {kOrigin, kOrigin + 1000};
  r.ranges.push_back({7, 0, Phase::forward, -1, "forward", {kOrigin + 1, kOrigin + 900}, 42});
  r.works.push_back({"gemm", 10, 20});
  return r;
}

BOOST_AUTO_TEST_SUITE(decoding)

BOOST_AUTO_TEST_CASE(every_kind_of_record_is_read_where_the_published_header_has_its_fields) {
  Bytes b;
  b.external(kRange, 7, 100).external(kWork, 1, 100);
  b.kernel(kOrigin + 10, kOrigin + 20, 13, 100, "_Z4gemmPf");
  b.external(kRange, 7, 101);
  b.copy(2, 4096, kOrigin + 30, kOrigin + 40, 14, 101);
  b.external(kRange, 7, 102);
  b.record(kMemset, 88).u32(4, 0).u64(8, 512).u64(16, kOrigin + 50).u64(24, kOrigin + 60).u32(40, 13).u32(44, 102);
  b.record(kRuntime, 40).u32(4, 1).u64(8, kOrigin + 5).u64(16, kOrigin + 8).u32(24, 1).u32(28, 42).u32(32, 100);
  b.record(kSync, 40).u32(4, 3).u64(8, kOrigin + 70).u64(16, kOrigin + 80).u32(24, 103);
  b.record(kOverhead, 48).u32(4, 1 << 16).u64(24, kOrigin + 90).u64(32, kOrigin + 95);
  b.memory(1, 3, 2048, kOrigin + 3).memory(2, 2, 64, kOrigin + 4);
  b.record(kMemoryPool, 72);
  const Profile p = decode(recording_of({b.span()}));

  BOOST_TEST_REQUIRE(p.device.size() == 3);
  BOOST_TEST(p.device[0].name == "gemm(float*)");
  BOOST_TEST((p.device[0].time.begin == 10 && p.device[0].time.end == 20));
  BOOST_TEST(p.device[0].stream == 13);
  BOOST_TEST(p.device[0].range == 7);
  BOOST_TEST(p.device[0].work == 1);
  BOOST_TEST((p.device[1].kind == DeviceActivity::Kind::device_to_host));
  BOOST_TEST(p.device[1].bytes == 4096);
  BOOST_TEST(p.device[1].stream == 14);
  BOOST_TEST((p.device[2].kind == DeviceActivity::Kind::memset));
  BOOST_TEST(p.device[2].bytes == 512);
  BOOST_TEST_REQUIRE(p.host.size() == 3);
  BOOST_TEST((p.host[0].kind == HostActivity::Kind::call && p.host[0].thread == 42 && p.host[0].correlation == 100));
  BOOST_TEST((p.host[0].time.begin == 5 && p.host[0].time.end == 8 && p.host[0].range == 7));
  BOOST_TEST(p.host[1].name == "wait for stream");
  BOOST_TEST((p.host[2].kind == HostActivity::Kind::overhead && p.host[2].time.begin == 90));
  BOOST_TEST_REQUIRE(p.memory.size() == 2);
  BOOST_TEST((p.memory[0].kind == MemoryActivity::Kind::device_allocate && p.memory[0].bytes == 2048));
  BOOST_TEST((p.memory[1].kind == MemoryActivity::Kind::pinned_free && p.memory[1].at == 4));
  BOOST_TEST(p.completeness.records == 13);
  BOOST_TEST(p.completeness.complete());
}

BOOST_AUTO_TEST_CASE(a_correlation_is_found_in_whichever_buffer_comes_last) {
  Bytes first, second;
  first.kernel(kOrigin + 10, kOrigin + 20, 13, 100, "k");
  second.external(kRange, 7, 100);
  BOOST_TEST(decode(recording_of({first.span(), second.span()})).device.at(0).range == 7);
  BOOST_TEST(decode(recording_of({second.span(), first.span()})).device.at(0).range == 7);
}

BOOST_AUTO_TEST_CASE(what_is_lost_or_cannot_be_is_counted_and_left_out) {
  Bytes b;
  b.external(kRange, 7, 1);
  b.kernel(kOrigin + 10, kOrigin + 20, 13, 1, "good");
  b.kernel(0, 0, 13, 1, "no times");
  b.kernel(kOrigin + 30, 0, 13, 1, "no end");
  b.kernel(kOrigin + 40, kOrigin + 35, 13, 1, "ends before it begins");
  b.kernel(kOrigin - 5, kOrigin + 5, 13, 1, "before the recording");
  b.kernel(kOrigin + 990, kOrigin + 1001, 13, 1, "after it");
  b.kernel(kOrigin + 50, kOrigin + 60, 13, 99, "of no call that we know");
  Recording r = recording_of({b.span()});
  r.dropped = 4;
  const Profile p = decode(r);
  BOOST_TEST(p.device.size() == 2);
  BOOST_TEST(p.completeness.dropped == 4);
  BOOST_TEST(p.completeness.zero_timestamps == 2);
  BOOST_TEST(p.completeness.out_of_range == 3);
  BOOST_TEST(p.completeness.unattributed == 1);
}

BOOST_AUTO_TEST_CASE(a_buffer_that_ends_within_a_record_gives_the_records_before_it) {
  Bytes b;
  b.external(kRange, 7, 1);
  b.kernel(kOrigin + 10, kOrigin + 20, 13, 1, "whole");
  b.kernel(kOrigin + 30, kOrigin + 40, 13, 1, "cut");
  RecordBytes cut = b.span();
  for (std::size_t missing = 1; missing <= 208; ++missing) {
    cut.bytes = b.span().bytes - missing;
    BOOST_TEST(decode(recording_of({cut})).device.size() == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_stream_that_waits_for_an_event_is_no_wait_of_the_host) {
  Bytes b;
  b.record(kSync, 40).u32(4, 2).u64(8, kOrigin + 70).u64(16, kOrigin + 80);
  b.record(kSync, 40).u32(4, 1).u64(8, kOrigin + 70).u64(16, kOrigin + 80);
  const Profile p = decode(recording_of({b.span()}));
  BOOST_TEST_REQUIRE(p.host.size() == 1);
  BOOST_TEST(p.host[0].name == "wait for event");
}

BOOST_AUTO_TEST_CASE(a_range_that_is_still_open_ends_with_the_recording) {
  Recording r = recording_of({});
  r.ranges.push_back({8, 7, Phase::backward, -1, "open", {kOrigin + 5, 0}, 42});
  const Profile p = decode(r);
  BOOST_TEST((p.ranges[0].host.begin == 1 && p.ranges[0].host.end == 900));
  BOOST_TEST((p.ranges[1].host.begin == 5 && p.ranges[1].host.end == 1000));
}

BOOST_AUTO_TEST_CASE(a_step_begins_when_the_work_before_it_is_done) {
  Bytes b;
  b.external(kRange, 7, 1).external(kRange, 9, 2);
  b.kernel(kOrigin + 10, kOrigin + 120, 13, 1, "before");  // still running when the host begins the step
  b.kernel(kOrigin + 130, kOrigin + 200, 13, 2, "within");
  Recording r = recording_of({b.span()});
  r.ranges.push_back({8, 0, Phase::none, -1, kStepRange, {kOrigin + 100, kOrigin + 150}, 42});
  r.ranges.push_back({9, 8, Phase::forward, -1, "forward", {kOrigin + 101, kOrigin + 149}, 42});
  const Profile p = decode(r);
  BOOST_TEST_REQUIRE(p.steps.size() == 1);
  BOOST_TEST((p.steps[0].time.begin == 120 && p.steps[0].time.end == 200));
}

// A host that is ahead has issued a step before the device begins it: nothing of the host's overlaps the step then.
BOOST_AUTO_TEST_CASE(one_step_of_a_profile_keeps_the_ranges_and_calls_that_issued_its_work) {
  Bytes b;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint64_t issued = kOrigin + 10 + 10 * i, begin = kOrigin + 100 + 100 * i;
    b.external(kRange, 20 + 2 * i + 1, 100 + i);
    b.record(kRuntime, 40).u32(4, 1).u64(8, issued).u64(16, issued + 2).u32(28, 42).u32(32, 100 + i);
    b.kernel(begin, begin + 90, 13, 100 + i, "k");
  }
  Recording r = recording_of({b.span()});
  r.ranges.clear();
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Nanoseconds issued = kOrigin + 9 + 10 * static_cast<Nanoseconds>(i);
    r.ranges.push_back({20 + 2 * i, 0, Phase::none, -1, kStepRange, {issued, issued + 8}, 42});
    r.ranges.push_back({20 + 2 * i + 1, 20 + 2 * i, Phase::optimizer, -1, "optimizer", {issued, issued + 7}, 42});
  }
  const Profile whole = decode(r);
  BOOST_TEST_REQUIRE(whole.steps.size() == 3);
  const Profile p = of_step(whole, 2);
  BOOST_TEST_REQUIRE(p.device.size() == 1);
  BOOST_TEST(p.device[0].time.begin == 300);
  BOOST_TEST_REQUIRE(p.host.size() == 1);
  BOOST_TEST(p.host[0].correlation == 102);
  BOOST_TEST_REQUIRE(p.ranges.size() == 2);
  BOOST_TEST(p.ranges[0].id == 24);
  BOOST_TEST(p.ranges[1].id == 25);
  BOOST_CHECK_THROW(of_step(whole, 3), std::out_of_range);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
