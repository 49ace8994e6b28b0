// Random programs on several streams, which use one another's blocks and lag behind, against the naive allocator: on a
// device that runs out of memory and fails by chance, under a cap or none, with every knob turned. Both must agree on
// every segment, block and statistic after every operation, and the ledger of events must add up to the statistics.
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/memory/caching_allocator.h"
#include "test/fixture.h"
#include "test/runtime/memory/fake_device.h"
#include "test/runtime/memory/naive_allocator.h"

using namespace spillway::memory;
using spillway::test::FakeDevice;
using spillway::test::NaiveAllocator;

namespace {

std::int64_t address_of(const void* p) {
  return reinterpret_cast<std::int64_t>(p);
}

// The books of somebody who only hears the events.
struct Ledger {
  std::int64_t allocated = 0, reserved = 0, ooms = 0;
  CategoryBytes by_category{};
  std::string broken;

  void hear(const MemoryEvent& e, const Stats& s) {
    using Kind = MemoryEvent::Kind;
    std::int64_t& category = by_category[static_cast<std::size_t>(e.category)];
    if (e.kind == Kind::allocate) allocated += e.bytes, category += e.bytes;
    if (e.kind == Kind::free) allocated -= e.bytes, category -= e.bytes;
    if (e.kind == Kind::segment_allocate) reserved += e.bytes;
    if (e.kind == Kind::segment_release) reserved -= e.bytes;
    if (e.kind == Kind::out_of_memory) ++ooms;
    if (std::accumulate(s.by_category.begin(), s.by_category.end(), std::int64_t{0}) != s.allocated)
      broken = "the categories do not sum to what is allocated";
    if (allocated != s.allocated || reserved != s.reserved || ooms != s.ooms || by_category != s.by_category)
      broken = "the events do not add up to the statistics";
  }
};

// One random program. Both allocators stand on devices of their own, which answer alike.
class Program {
 public:
  explicit Program(std::uint64_t seed)
      : random_(seed),
        device_(std::int64_t{1} << (25 + pick(4))),  // 32 to 256 MiB: memory runs out
        naive_device_(device_.info().total_bytes),
        cap_(pick(3) == 0 ? pick(100) << 20 : 0),
        capped_(device_, cap_),
        knobs_(random_knobs()),
        allocator_(capped_, std::make_unique<CachingPolicy>(
                                capped_, CachingOptions{knobs_.max_split, knobs_.divisions, knobs_.gc})),
        naive_(naive_device_, cap_, knobs_),
        listening_(allocator_.listen([this](const MemoryEvent& e, const Stats& s) { ledger_.hear(e, s); })) {}

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      if (pick(40) == 0) {  // the next call of both devices fails
        device_.fail_at = device_.calls + 1;
        naive_device_.fail_at = naive_device_.calls + 1;
      }
      const std::int64_t dice = pick(100);
      if (dice == 0)
        allocator_.release_cached(), naive_.release_cached();
      else if (dice == 1)
        allocator_.reset_peaks(), naive_.reset_peaks();
      else if (dice < 6 && !live_.empty())
        use_one();
      else if (dice < 12)
        let_a_stream_work();
      else if (dice < 45 && !live_.empty())
        free_one();
      else
        allocate_one();
      compare();
    }
    while (!live_.empty()) free_one();
    compare();
    BOOST_REQUIRE_EQUAL(allocator_.stats().allocated, 0);
    allocator_.release_cached();
    BOOST_REQUIRE_EQUAL(allocator_.stats().reserved, 0);
    BOOST_REQUIRE(device_.live.empty());
  }
  std::int64_t ooms() const { return ooms_; }

 private:
  std::int64_t pick(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  NaiveAllocator::Options random_knobs() {
    NaiveAllocator::Options knobs;
    if (pick(2)) knobs.max_split = (21 + pick(20)) << 20;
    if (pick(3) == 0) knobs.divisions = std::int64_t{1} << pick(5);
    if (pick(2)) knobs.gc = static_cast<double>(1 + pick(99)) / 100;
    return knobs;
  }

  void use_one() {
    Allocation& a = live_[static_cast<std::size_t>(pick(static_cast<std::int64_t>(live_.size())))];
    const int stream = static_cast<int>(pick(3));
    if (stream == stream_of_[address_of(a.data())]) return;
    a.record_use(NaiveAllocator::handle(stream));
    naive_.use(address_of(a.data()), stream);
  }

  // Some of what the stream was given is done.
  void let_a_stream_work() {
    const cudaStream_t stream = NaiveAllocator::handle(static_cast<int>(pick(3)));
    FakeDevice::Work& work = device_.streams[stream];
    work.done += pick(1 + work.issued - work.done);
    naive_device_.streams[stream].done = work.done;
  }

  void free_one() {
    const auto victim = live_.begin() + pick(static_cast<std::int64_t>(live_.size()));
    naive_.free(address_of(victim->data()));
    live_.erase(victim);
    ++frees_;
  }

  void allocate_one() {
    static constexpr std::int64_t kEdges[] = {1,        511,      512,      513,      4096,     1048575,
                                              1048576,  1048577,  10485759, 10485760, 10485761, 20971520,
                                              21 << 20, 22020097, 31 << 20, 32 << 20, 41 << 20, 42 << 20};
    const std::int64_t bytes = pick(2) ? kEdges[pick(std::size(kEdges))] : 1 + pick(std::int64_t{1} << (1 + pick(24)));
    const int stream = static_cast<int>(pick(3));
    const auto category = static_cast<Category>(pick(kCategories));
    const auto expected = naive_.allocate(bytes, stream, category);
    try {
      Allocation a = allocator_.allocate(bytes, category, NaiveAllocator::handle(stream), "fuzz");
      BOOST_REQUIRE(expected);
      BOOST_REQUIRE_EQUAL(address_of(a.data()), *expected);
      BOOST_REQUIRE_EQUAL(a.bytes(), bytes);
      stream_of_[address_of(a.data())] = stream;
      live_.push_back(std::move(a));
      ++allocations_;
    } catch (const OutOfMemory& e) {
      BOOST_REQUIRE(!expected);
      BOOST_REQUIRE_EQUAL(e.requested, bytes);
      ++ooms_;
    }
  }

  void compare() {
    allocator_.check_invariants();
    BOOST_REQUIRE_EQUAL(ledger_.broken, "");
    compare_statistics();
    BOOST_REQUIRE_EQUAL(device_.calls, naive_device_.calls);
    BOOST_REQUIRE(device_.live == naive_device_.live);
    const auto segments = allocator_.snapshot();
    BOOST_REQUIRE_EQUAL(segments.size(), naive_.segments.size());
    naive_.segments.sort(
        [](const auto& a, const auto& b) { return a.blocks.front().address < b.blocks.front().address; });
    auto expected = naive_.segments.begin();
    for (const auto& segment : segments) {
      BOOST_REQUIRE(segment.stream == NaiveAllocator::handle(expected->stream) && segment.small == expected->small);
      BOOST_REQUIRE_EQUAL(segment.bytes, expected->bytes);
      BOOST_REQUIRE_EQUAL(segment.blocks.size(), expected->blocks.size());
      auto block = expected->blocks.begin();
      std::int64_t end = 0;
      for (const auto& b : segment.blocks) {
        BOOST_REQUIRE_EQUAL(b.offset, end);  // blocks neither overlap nor leave a gap
        end = b.offset + b.bytes;
        BOOST_REQUIRE_EQUAL(address_of(segment.address) + b.offset, block->address);
        BOOST_REQUIRE_EQUAL(b.bytes, block->bytes);
        BOOST_REQUIRE_EQUAL(b.requested, block->requested);
        BOOST_REQUIRE_EQUAL(b.state == BlockState::allocated, block->requested > 0);
        BOOST_REQUIRE_EQUAL(b.state == BlockState::pending, block->pending);
        if (b.state == BlockState::allocated) BOOST_REQUIRE(b.category == block->category);
        ++block;
      }
      ++expected;
    }
  }

  void compare_statistics() {
    const Stats& s = allocator_.stats();
    const NaiveAllocator::Sums now = naive_.sums();
    BOOST_REQUIRE_EQUAL(s.allocated, now.allocated);
    BOOST_REQUIRE_EQUAL(s.requested, now.requested);
    BOOST_REQUIRE_EQUAL(s.reserved, now.reserved);
    BOOST_REQUIRE(s.by_category == now.by_category);
    BOOST_REQUIRE_EQUAL(s.max_allocated, naive_.peak.allocated);
    BOOST_REQUIRE(s.at_peak == naive_.peak.by_category);
    BOOST_REQUIRE_EQUAL(s.max_requested, naive_.max_requested);
    BOOST_REQUIRE_EQUAL(s.max_reserved, naive_.max_reserved);
    BOOST_REQUIRE(s.max_by_category == naive_.max_by_category);
    BOOST_REQUIRE_EQUAL(s.allocations, allocations_);
    BOOST_REQUIRE_EQUAL(s.frees, frees_);
    BOOST_REQUIRE_EQUAL(s.retries, naive_.retries);
    BOOST_REQUIRE_EQUAL(s.ooms, ooms_);
    BOOST_REQUIRE_EQUAL(s.device_frees, device_.releases);
    BOOST_REQUIRE_EQUAL(s.device_mallocs - s.device_frees, static_cast<std::int64_t>(device_.live.size()));
    if (cap_ > 0) BOOST_REQUIRE_LE(s.reserved, cap_);
  }

  std::mt19937_64 random_;
  FakeDevice device_, naive_device_;
  std::int64_t cap_;
  CappedMemory capped_;
  NaiveAllocator::Options knobs_;
  Ledger ledger_;
  Allocator allocator_;
  NaiveAllocator naive_;
  Allocator::Listening listening_;
  std::vector<Allocation> live_;
  std::map<std::int64_t, int> stream_of_;
  std::int64_t allocations_ = 0, frees_ = 0, ooms_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(fuzz)

BOOST_AUTO_TEST_CASE(short_random_programs_agree_with_a_naive_allocator_after_every_operation) {
  std::int64_t ooms = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      Program program(seed);
      program.run(40);
      ooms += program.ooms();
    }
  BOOST_TEST(ooms > 1000);  // the programs reach the end of memory
}

BOOST_AUTO_TEST_CASE(long_random_programs_agree_with_a_naive_allocator_after_every_operation) {
  for (std::uint64_t seed = 10001; seed <= 10060; ++seed) BOOST_TEST_CONTEXT("seed " << seed) Program(seed).run(600);
}

BOOST_AUTO_TEST_SUITE_END()
