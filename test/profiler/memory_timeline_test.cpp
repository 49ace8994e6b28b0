// memory_timeline_test.cpp - the allocator's ledger as it is kept: sums, owners, the peak against a count of its own,
// and what other programs read of it.
#include "profiler/memory_timeline.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "runtime/memory/caching_allocator.h"
#include "test/fixture.h"

namespace spillway::test {
namespace {

using namespace spillway::profiler;
using memory::Category;
using Kind = memory::MemoryEvent::Kind;

struct Recorded {
  memory::CudaDeviceMemory device;
  memory::CachingAllocator allocator{device};
  Nanoseconds now = 0;

  memory::Allocation take(std::int64_t bytes, Category category, const std::string& owner) {
    return allocator.allocate(bytes, category, nullptr, owner);
  }
  std::function<Nanoseconds()> clock() {
    return [this] { return now += 1500; };
  }
  // A random program of allocations and frees.
  MemoryTimeline random_program(unsigned seed) {
    std::mt19937 random(seed);
    MemoryRecorder recorder(allocator);
    std::vector<memory::Allocation> held;
    const auto act = [&] {
      if (held.empty() || random() % 3 != 0) {
        const auto category = static_cast<Category>(random() % memory::kCategories);
        held.push_back(take(1 + static_cast<std::int64_t>(random() % 5'000'000), category,
                            "tensor " + std::to_string(random() % 100)));
      } else {
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
      }
    };
    for (int i = 0; i < 20; ++i) act();
    recorder.begin(clock());
    for (int i = 0; i < 150; ++i) act();
    return recorder.end();
  }
};

// What Python prints of a pickle that is written to a file.
std::string python(const std::string& pickle, const std::string& program) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("spillway_pickle_" + std::to_string(::getpid()));
  std::ofstream(file, std::ios::binary) << pickle;
  const std::string command = "python3 -c 'import pickle,sys\nd=pickle.load(open(sys.argv[1],\"rb\"))\n" + program +
                              "' " + file.string() + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 512> part;
  while (std::fgets(part.data(), part.size(), pipe)) output += part.data();
  ::pclose(pipe);
  std::filesystem::remove(file);
  return output;
}

BOOST_FIXTURE_TEST_SUITE(memory_timeline, Recorded)

BOOST_AUTO_TEST_CASE(the_categories_sum_to_what_is_allocated_after_every_event) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const MemoryTimeline t = random_program(seed);
    std::int64_t allocated = 0;
    for (const LiveBlock& b : t.standing) allocated += b.bytes;
    Nanoseconds last = 0;
    for (const MemoryPoint& p : t.points) {
      if (p.kind == Kind::allocate) allocated += p.bytes;
      if (p.kind == Kind::free) allocated -= p.bytes;
      BOOST_TEST(p.allocated == allocated);
      BOOST_TEST(std::accumulate(p.by_category.begin(), p.by_category.end(), std::int64_t{0}) == allocated);
      BOOST_TEST(p.reserved >= p.allocated);
      BOOST_TEST(p.at > last);
      last = p.at;
    }
    BOOST_TEST(t.dropped == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_recorder_that_pauses_knows_the_owners_of_what_came_before_and_of_nothing_else) {
  MemoryRecorder recorder(allocator);
  const memory::Allocation stays = take(1000, Category::parameter, "stays");
  memory::Allocation goes = take(1000, Category::parameter, "goes");
  recorder.pause();
  goes = take(1000, Category::parameter, "comes unheard");  // the same size, and soon at the same address
  goes = take(1000, Category::parameter, "comes unheard");
  recorder.begin(clock());
  const MemoryTimeline t = recorder.end();
  BOOST_TEST(t.points.empty());
  BOOST_REQUIRE_EQUAL(t.standing.size(), 2U);
  BOOST_TEST(t.standing[0].owner == "stays");
  BOOST_TEST(t.standing[1].owner == "(before the recording)");
}

BOOST_AUTO_TEST_CASE(the_peak_is_the_first_greatest_moment_and_its_blocks_are_all_that_stands_there) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const MemoryTimeline t = random_program(seed);
    const Peak peak = peak_of(t);
    std::int64_t most = 0;
    std::ptrdiff_t first = -1;
    for (std::size_t i = 0; i < t.points.size(); ++i)
      if (t.points[i].allocated > most) most = t.points[i].allocated, first = static_cast<std::ptrdiff_t>(i);
    BOOST_TEST(peak.index == first);
    BOOST_TEST(peak.allocated == most);
    std::int64_t sum = 0;
    memory::CategoryBytes by_category{};
    for (std::size_t i = 0; i < peak.blocks.size(); ++i) {
      sum += peak.blocks[i].bytes;
      by_category[static_cast<std::size_t>(peak.blocks[i].category)] += peak.blocks[i].bytes;
      if (i > 0) BOOST_TEST(peak.blocks[i].bytes <= peak.blocks[i - 1].bytes);
    }
    BOOST_TEST(sum == most);
    BOOST_TEST((by_category == peak.by_category));
  }
}

BOOST_AUTO_TEST_CASE(a_free_names_the_owner_of_what_is_freed) {
  MemoryRecorder recorder(allocator);
  memory::Allocation weight = take(4096, Category::parameter, "layer 0 wq");
  recorder.begin(clock());
  memory::Allocation gate = take(100, Category::activation, "layer 0 gate");
  gate.reset();
  weight.reset();
  const MemoryTimeline t = recorder.end();
  BOOST_TEST_REQUIRE(t.standing.size() == 1);
  BOOST_TEST(t.standing[0].owner == "layer 0 wq");
  BOOST_TEST_REQUIRE(t.points.size() == 3);
  BOOST_TEST(t.points[0].owner == "layer 0 gate");
  BOOST_TEST(t.points[1].owner == "layer 0 gate");
  BOOST_TEST(t.points[2].owner == "layer 0 wq");
  BOOST_TEST(t.left.empty());
}

BOOST_AUTO_TEST_CASE(a_recorder_that_comes_late_counts_what_it_did_not_see) {
  const memory::Allocation early = take(4096, Category::parameter, "layer 0 wq");
  MemoryRecorder recorder(allocator);
  recorder.begin(clock());
  const memory::Allocation later = take(4096, Category::gradient, "layer 0 dwq");
  const Peak peak = peak_of(recorder.end());
  BOOST_TEST(peak.allocated == 8192);
  BOOST_TEST_REQUIRE(peak.blocks.size() == 2);
  BOOST_TEST((peak.blocks[0].owner == "(before the recording)" || peak.blocks[1].owner == "(before the recording)"));
}

BOOST_AUTO_TEST_CASE(a_recorder_that_is_full_says_how_much_it_dropped) {
  MemoryRecorder recorder(allocator, 3);
  recorder.begin(clock());
  for (int i = 0; i < 4; ++i) take(512, Category::workspace, "scratch");
  const MemoryTimeline t = recorder.end();
  BOOST_TEST(t.points.size() == 3);
  BOOST_TEST(t.dropped == 6);  // a segment, four allocations, four frees, less three
}

BOOST_AUTO_TEST_CASE(the_json_has_the_timelines_numbers_and_survives_any_name) {
  MemoryRecorder recorder(allocator);
  recorder.begin(clock());
  const memory::Allocation odd = take(700, Category::workspace, "a \"name\"\\ with\n\xff bytes");
  const auto j = nlohmann::json::parse(to_json(recorder.end(), "hybrid", "host"));
  BOOST_TEST(j["schema_version"] == "memory-timeline/v1");
  BOOST_TEST(j["peak"]["allocated_bytes"] == 1024);
  BOOST_TEST(j["peak"]["owners"][0]["requested_bytes"] == 700);
  BOOST_TEST(j["points"].size() == 2);
  BOOST_TEST(j["points"][1]["kind"] == "allocate");
  BOOST_TEST(j["points"][1]["by_category"][static_cast<std::size_t>(Category::workspace)] == 1024);
}

BOOST_AUTO_TEST_CASE(the_csv_has_a_line_a_point_and_quotes_as_the_standard_does) {
  MemoryRecorder recorder(allocator);
  recorder.begin(clock());
  const memory::Allocation odd = take(512, Category::workspace, "a \"name\", with a comma");
  const std::string csv = to_csv(recorder.end());
  BOOST_TEST(std::count(csv.begin(), csv.end(), '\n') == 3);
  BOOST_TEST(csv.find(",\"a \"\"name\"\", with a comma\",workspace,512,512,") != std::string::npos, csv);
}

BOOST_AUTO_TEST_CASE(python_loads_the_pickle_and_finds_what_pytorchs_viewer_reads) {
  const MemoryTimeline t = random_program(7);
  std::int64_t live = 0, reserved = 0;
  for (const auto& s : t.segments) {
    reserved += s.bytes;
    for (const auto& b : s.blocks) live += b.state == memory::BlockState::allocated ? b.bytes : 0;
  }
  const std::string printed = python(to_pickle(t), R"(
assert sorted(d) == ["allocator_settings", "device_traces", "external_annotations", "segments"]
for s in d["segments"]:
    assert set(s) >= {"address","total_size","stream","segment_type","allocated_size","active_size","blocks","device"}
    assert sum(b["size"] for b in s["blocks"]) == s["total_size"]
    at = s["address"]
    for b in s["blocks"]:
        assert b["address"] == at and b["state"] in ("active_allocated", "inactive")
        at += b["size"]
        assert (b["state"] == "inactive") == (not b["frames"])
    assert s["allocated_size"] == sum(b["size"] for b in s["blocks"] if b["state"] == "active_allocated")
live = {}
for e in d["device_traces"][0]:
    assert set(e) >= {"action","addr","size","stream","time_us","frames"}
    assert e["addr"] > 0
    if e["action"] == "alloc":
        live[e["addr"]] = e["size"]
        assert e["frames"][0]["name"].startswith("tensor ")
    if e["action"] == "free_completed": live.pop(e["addr"], None)
at_end = {b["address"]: b["size"] for s in d["segments"] for b in s["blocks"] if b["state"] != "inactive"}
assert all(at_end[a] == size for a, size in live.items())
print(sum(at_end.values()), sum(s["total_size"] for s in d["segments"]), len(d["device_traces"][0]))
)");
  const auto frees =
      std::count_if(t.points.begin(), t.points.end(), [](const auto& p) { return p.kind == Kind::free; });
  BOOST_TEST(printed == std::to_string(live) + " " + std::to_string(reserved) + " " +
                            std::to_string(t.points.size() + static_cast<std::size_t>(frees)) + "\n");
}

BOOST_AUTO_TEST_CASE(a_block_that_another_stream_may_still_use_is_active_in_the_pickle) {
  MemoryTimeline t;
  memory::SegmentView segment{nullptr, 4096, true, nullptr, {}};
  segment.blocks.push_back({0, 1024, 1024, 1000, memory::BlockState::allocated, Category::workspace, 1});
  segment.blocks.push_back({1024, 512, 512, 0, memory::BlockState::pending, Category::workspace, 2});
  segment.blocks.push_back({1536, 2560, 2560, 0, memory::BlockState::free, Category::workspace, 0});
  t.segments.push_back(segment);
  BOOST_TEST(python(to_pickle(t), R"(
s = d["segments"][0]
print(s["allocated_size"], s["active_size"], s["requested_size"], [b["state"] for b in s["blocks"]][1])
)") == "1024 1536 1000 active_pending_free\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
