// The trace, read back by a strict parser: what it must hold, slices that nest (every pair compared), arrows that begin
// and end at slices, and text that no name can break.
#include "profiler/trace.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <tuple>

#include "test/fixture.h"
#include "test/profiler/profiles.h"

using namespace spillway::test;

namespace {

using Lane = std::pair<std::int64_t, std::int64_t>;  // process, thread

struct Event {
  std::string phase, name, category;
  Lane lane;
  Nanoseconds begin = 0, length = 0;
  std::int64_t id = 0, bytes = -1;
};

Nanoseconds nanoseconds(const simdjson::dom::element& microseconds) {
  return std::llround(double(microseconds) * 1000);
}

// std::exception when the text is not JSON or an event lacks what its phase needs.
struct Trace {
  std::vector<Event> events;
  std::map<Lane, std::string> lane_names;

  explicit Trace(const std::string& text) {
    simdjson::dom::parser parser;
    for (const simdjson::dom::element e : simdjson::dom::array(parser.parse(text)["traceEvents"])) {
      Event event;
      event.phase = std::string(std::string_view(e["ph"]));
      event.name = std::string(std::string_view(e["name"]));
      event.lane = {std::int64_t(e["pid"]), std::int64_t(e["tid"])};
      if (event.phase == "M") {
        if (event.name == "thread_name") lane_names[event.lane] = std::string(std::string_view(e["args"]["name"]));
        continue;
      }
      event.begin = nanoseconds(e["ts"]);
      if (event.phase == "X") event.length = nanoseconds(e["dur"]);
      if (event.phase == "C") event.bytes = std::int64_t(e["args"]["bytes"]);
      if (event.phase == "s" || event.phase == "f") event.id = std::int64_t(e["id"]);
      if (event.phase == "X") event.category = std::string(std::string_view(e["cat"]));
      events.push_back(event);
    }
  }
  std::vector<Event> of(const std::string& phase) const {
    std::vector<Event> some;
    std::copy_if(events.begin(), events.end(), std::back_inserter(some),
                 [&](const Event& e) { return e.phase == phase; });
    return some;
  }
  Event slice(const std::string& name) const {
    for (const Event& e : events)
      if (e.phase == "X" && e.name == name) return e;
    BOOST_FAIL("no slice " << name);
    return {};
  }
  std::string lane_of(const std::string& slice_name) const { return lane_names.at(slice(slice_name).lane); }
  std::vector<std::int64_t> counter(const std::string& name) const {
    std::vector<std::int64_t> values;
    for (const Event& e : events)
      if (e.phase == "C" && e.name == name) values.push_back(e.bytes);
    return values;
  }
};

void check_nesting(const Trace& trace) {
  std::map<Lane, std::vector<Event>> lanes;
  for (const Event& e : trace.of("X")) lanes[e.lane].push_back(e);
  for (const auto& [lane, slices] : lanes) {
    BOOST_TEST(trace.lane_names.count(lane) == 1U);
    for (std::size_t i = 0; i < slices.size(); ++i)
      for (std::size_t j = i + 1; j < slices.size(); ++j) {
        const Nanoseconds a = slices[i].begin, a_end = a + slices[i].length;
        const Nanoseconds b = slices[j].begin, b_end = b + slices[j].length;
        const bool nest = a_end <= b || b_end <= a || (a <= b && b_end <= a_end) || (b <= a && a_end <= b_end);
        BOOST_TEST(nest, slices[i].name << " [" << a << ", " << a_end << ") and " << slices[j].name << " [" << b << ", "
                                        << b_end << ")");
      }
  }
}

// Every arrow once from a call's slice to one of work, forward in time.
void check_arrows(const Trace& trace) {
  std::map<std::int64_t, std::pair<std::vector<Event>, std::vector<Event>>> arrows;
  for (const Event& e : trace.of("s")) arrows[e.id].first.push_back(e);
  for (const Event& e : trace.of("f")) arrows[e.id].second.push_back(e);
  const std::vector<Event> slices = trace.of("X");
  const auto at = [&](const Event& end, bool call) {
    return std::any_of(slices.begin(), slices.end(), [&](const Event& s) {
      return s.lane == end.lane && s.begin == end.begin && (s.category == "call") == call;
    });
  };
  for (const auto& [id, ends] : arrows) {
    BOOST_REQUIRE(ends.first.size() == 1U);
    BOOST_REQUIRE(ends.second.size() == 1U);
    BOOST_TEST(at(ends.first[0], true));
    BOOST_TEST(at(ends.second[0], false));
    BOOST_TEST(ends.first[0].begin <= ends.second[0].begin);
  }
}

MemoryTimeline timeline(std::initializer_list<std::tuple<Nanoseconds, std::int64_t, std::int64_t>> points) {
  MemoryTimeline t;
  for (const auto& [at, allocated, reserved] : points) {
    MemoryPoint p{};
    p.at = at;
    p.allocated = allocated;
    p.reserved = reserved;
    t.points.push_back(p);
  }
  return t;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chrome_trace)

BOOST_AUTO_TEST_CASE(every_record_is_a_slice_and_slices_nest_whatever_the_profile) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    Builder b{random_profile(random, 60)};
    b.host(HostActivity::Kind::synchronization, 3, 40, 1);
    b.host(HostActivity::Kind::synchronization, 20, 50, 2);
    b.host(HostActivity::Kind::overhead, 10, 30);
    for (int i = 0; i < 4; ++i) b.range(Phase::forward, static_cast<Nanoseconds>(random() % 30), 31 + 4 * i);
    const Profile& p = b.profile;
    const Trace trace(to_chrome_trace(p, nullptr));
    BOOST_TEST(trace.of("X").size() == p.device.size() + p.host.size() + p.ranges.size() + p.steps.size());
    check_nesting(trace);
    check_arrows(trace);
    std::size_t expected = 0;
    for (const DeviceActivity& d : p.device)
      for (const HostActivity& h : p.host)
        expected +=
            h.kind == HostActivity::Kind::call && h.correlation == d.correlation && h.time.begin <= d.time.begin;
    BOOST_TEST(trace.of("s").size() == expected);
  }
}

BOOST_AUTO_TEST_CASE(a_small_profile_is_written_like_this) {
  Builder b;
  b.profile.tool = "hostcuda";
  b.profile.streams = {{7, "compute"}};
  b.step(10'000, 30'000);
  const auto range = b.range(Phase::forward, 5'000, 20'005, 0, "layer 3 attention", 3);
  b.declared("matmul", 12'000, 13'500, 64, 32).correlation = 9;
  b.profile.device.back().range = range;
  b.call("cudaLaunchKernel", 6'000, 7'001, 9);
  const MemoryTimeline memory = timeline({{4'000, 512, 2'097'152}});
  const std::string text = to_chrome_trace(b.profile, &memory);
  const auto has = [&](const std::string& line) {
    BOOST_TEST_CONTEXT(text) BOOST_TEST(text.find("\n" + line) != std::string::npos, line);
  };
  has(R"({"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"host"}})");
  has(R"({"ph":"M","pid":2,"tid":3,"name":"thread_name","args":{"name":"compute"}})");
  has(R"({"ph":"X","pid":1,"tid":1,"ts":1.000,"dur":15.005,"name":"layer 3 attention","cat":"forward","args":{"layer":3}})");
  has(R"({"ph":"X","pid":1,"tid":1,"ts":2.000,"dur":1.001,"name":"cudaLaunchKernel","cat":"call","args":{"correlation":9}})");
  has(R"({"ph":"X","pid":2,"tid":2,"ts":6.000,"dur":20.000,"name":"step 1","cat":"step","args":{}})");
  has(R"({"ph":"X","pid":2,"tid":3,"ts":8.000,"dur":1.500,"name":"matmul","cat":"kernel","args":{"kernel":"kernel",)"
      R"("flops":64,"bytes":32,"range":"layer 3 attention","phase":"forward","correlation":9}})");
  has(R"({"ph":"s","pid":1,"tid":1,"ts":2.000,"id":1,"name":"launch","cat":"launch"})");
  has(R"({"ph":"f","bp":"e","pid":2,"tid":3,"ts":8.000,"id":1,"name":"launch","cat":"launch"})");
  has(R"({"ph":"C","pid":3,"tid":0,"ts":0.000,"name":"allocated","args":{"bytes":512}})");
  has(R"({"ph":"C","pid":3,"tid":0,"ts":0.000,"name":"reserved","args":{"bytes":2097152}})");
}

BOOST_AUTO_TEST_CASE(no_name_can_break_the_json) {
  const std::string hostile = std::string("quote \" backslash \\ line\n tab\t bell\a ") + '\0' + " \x7f {\"ph\":\"X\"}";
  Builder b;
  b.profile.tool = hostile;
  b.profile.unavailable = hostile;
  b.profile.streams = {{7, hostile}, {8, "latin \xe9 cut \xe2\x82"}};
  b.step(0, 10);
  const auto range = b.range(Phase::forward, 0, 5, 0, hostile + "range");
  b.call(hostile + "call", 0, 1);
  b.work(Work::kernel, 0, 5, range, 7, hostile + "kernel");
  b.declared(hostile + "declared", 5, 6, 1, 1).name = hostile;
  b.work(Work::kernel, 0, 5, 0, 8, "euro \xe2\x82\xac");
  b.work(Work::kernel, 6, 7, 0, 8, "bad \xff\xc0\xaf");
  const std::string text = to_chrome_trace(b.profile, nullptr);
  const Trace trace(text);
  for (const char* name : {"range", "call", "kernel", "declared"}) trace.slice(hostile + name);
  BOOST_TEST(trace.lane_of(hostile + "kernel") == hostile);
  trace.slice("euro \xe2\x82\xac");
  trace.slice("bad \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  BOOST_TEST(trace.lane_of("euro \xe2\x82\xac") == "latin \xef\xbf\xbd cut \xef\xbf\xbd");
  BOOST_TEST(std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' ' && c != '\n'; }));
}

BOOST_AUTO_TEST_CASE(numbers_have_three_decimals_and_no_exponent_at_any_size) {
  const Nanoseconds day = 86'400'000'000'000;
  Builder b;
  b.step(day, 30 * day);
  b.kernel(day + 1, 20 * day);
  b.declared("petascale", day, 30 * day, 9'000'000'000'000'000'000, 4'000'000'000'000'000'000);
  b.work(Work::host_to_device, day, day).bytes = 1'000'000'000'000;
  const MemoryTimeline memory = timeline({{0, 80'000'000'000, 85'899'345'920}});
  const std::string text = to_chrome_trace(b.profile, &memory);
  BOOST_TEST(Trace(text).counter("reserved") == std::vector<std::int64_t>{85'899'345'920});
  const std::regex time(R"re("(ts|dur)":([^,}]*)[,}])re"), three(R"(\d+\.\d{3})"), exponent(R"re(:-?[\d.]+[eE])re");
  std::size_t times = 0;
  for (std::sregex_iterator i(text.begin(), text.end(), time), end; i != end; ++i, ++times)
    BOOST_TEST(std::regex_match((*i)[2].str(), three), (*i)[2].str());
  BOOST_TEST(times == 10U);  // four slices of two, two counters
  BOOST_TEST(!std::regex_search(text, exponent));
  BOOST_TEST(text.find(R"("dur":2505600000000.000)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(time_begins_with_whatever_came_first) {
  for (int first = 0; first < 6; ++first) {
    const auto at = [&](int which) -> Nanoseconds { return which == first ? -5'000 : 1'000; };
    Builder b;
    b.step(at(0), 9'000);
    b.kernel(at(1), 9'000);
    b.call("call", at(2), 9'000);
    b.range(Phase::forward, at(3), 9'000);
    b.profile.memory = {{MemoryActivity::Kind::pinned_allocate, at(4), 64}};
    const MemoryTimeline memory = timeline({{at(5), 1, 2}});
    std::multiset<Nanoseconds> begins;
    for (const Event& e : Trace(to_chrome_trace(b.profile, &memory)).events) begins.insert(e.begin);
    BOOST_TEST(*begins.begin() == 0);
    BOOST_TEST(begins.count(0) == (first == 5 ? 2U : 1U));  // allocated and reserved
    BOOST_TEST(*begins.rbegin() == 6'000);
  }
}

BOOST_AUTO_TEST_CASE(what_overlaps_in_a_lane_goes_to_another_of_its_name) {
  Builder b;
  b.profile.streams = {{9, "copy-out"}, {7, "compute"}};
  b.work(Work::kernel, 0, 10, 0, 7, "a");
  b.work(Work::kernel, 5, 15, 0, 7, "b");
  b.work(Work::kernel, 10, 20, 0, 7, "c");
  b.work(Work::kernel, 12, 13, 0, 7, "in c");
  b.work(Work::device_to_host, 0, 10, 0, 9, "out");
  b.work(Work::kernel, 0, 10, 0, 3, "unnamed");
  const Trace trace(to_chrome_trace(b.profile, nullptr));
  check_nesting(trace);
  BOOST_TEST((trace.slice("a").lane == trace.slice("c").lane));
  BOOST_TEST((trace.slice("a").lane == trace.slice("in c").lane));
  BOOST_TEST((trace.slice("a").lane != trace.slice("b").lane));
  BOOST_TEST(trace.lane_of("a") == "compute");
  BOOST_TEST(trace.lane_of("b") == "compute");
  BOOST_TEST(trace.lane_of("out") == "copy-out");
  BOOST_TEST(trace.lane_of("unnamed") == "stream 3");
  BOOST_TEST((trace.slice("out").lane < trace.slice("a").lane));  // as they were named
  BOOST_TEST((trace.slice("b").lane < trace.slice("unnamed").lane));
}

BOOST_AUTO_TEST_CASE(ranges_nest_with_calls_in_them_and_waits_lie_elsewhere) {
  Builder b;
  const auto outer = b.range(Phase::forward, 0, 100, 0, "forward");
  b.range(Phase::forward, 0, 50, outer, "layer");
  b.call("cudaLaunchKernel", 10, 20, 1);
  b.call("other thread", 10, 20, 2, 2);
  b.host(HostActivity::Kind::synchronization, 15, 60).name = "wait";
  b.host(HostActivity::Kind::overhead, 15, 60).name = "cost";
  const Trace trace(to_chrome_trace(b.profile, nullptr));
  BOOST_TEST((trace.slice("forward").lane == trace.slice("layer").lane));
  BOOST_TEST((trace.slice("forward").lane == trace.slice("cudaLaunchKernel").lane));
  BOOST_TEST(trace.lane_of("forward") == "host thread 1");
  BOOST_TEST(trace.lane_of("other thread") == "host thread 2");
  BOOST_TEST(trace.lane_of("wait") == "host thread 1, waiting");
  BOOST_TEST(trace.lane_of("cost") == "host thread 1, profiler");
}

BOOST_AUTO_TEST_CASE(a_call_points_to_everything_that_it_started_and_to_nothing_earlier) {
  Builder b;
  b.call("cudaGraphLaunch", 10, 20, 5);
  b.kernel(15, 16).correlation = 5;
  b.kernel(17, 18).correlation = 5;
  b.kernel(9, 10).correlation = 5;   // clocks that disagree
  b.kernel(30, 31).correlation = 6;  // its call was dropped
  b.call("cudaEventRecord", 1, 2);
  b.kernel(40, 41);  // correlation 0 is none
  b.host(HostActivity::Kind::synchronization, 21, 29, 6);
  const Trace trace(to_chrome_trace(b.profile, nullptr));
  check_arrows(trace);
  BOOST_TEST(trace.of("s").size() == 2U);
  std::set<Nanoseconds> ends;
  for (const Event& e : trace.of("f")) ends.insert(e.begin);
  BOOST_TEST((ends == std::set<Nanoseconds>{14, 16}));  // the first thing is at 1
}

BOOST_AUTO_TEST_CASE(counters_follow_the_recordings) {
  using Kind = MemoryActivity::Kind;
  Builder b;
  b.profile.memory = {{Kind::pinned_free, 1, 100},     {Kind::device_allocate, 2, 7}, {Kind::pinned_allocate, 3, 50},
                      {Kind::pinned_allocate, 4, 150}, {Kind::device_free, 5, 7},     {Kind::pinned_free, 6, 200}};
  const MemoryTimeline memory = timeline({{0, 512, 2048}, {5, 1024, 2048}, {9, 0, 0}});
  const Trace both(to_chrome_trace(b.profile, &memory));
  const auto equal = [&](const std::string& name, const std::vector<std::int64_t>& expected) {
    BOOST_TEST(both.counter(name) == expected, boost::test_tools::per_element());
  };
  equal("allocated", {512, 1024, 0});
  equal("reserved", {2048, 2048, 0});
  equal("pinned", {0, 50, 200, 0});  // 100 were there before the recording
  const Trace without(to_chrome_trace(b.profile, nullptr));
  BOOST_TEST(without.counter("allocated").empty());
  BOOST_TEST(without.counter("pinned").size() == 4U);
  b.profile.memory = {{Kind::pinned_free, 1, 100}, {Kind::pinned_free, 2, 50}};
  BOOST_TEST(Trace(to_chrome_trace(b.profile, nullptr)).counter("pinned") == (std::vector<std::int64_t>{50, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_profile_without_records_is_a_trace_that_says_why) {
  Profile profile;
  profile.unavailable = "another profiler owns CUPTI";
  const std::string text = to_chrome_trace(profile, nullptr);
  BOOST_TEST(Trace(text).events.empty());
  BOOST_TEST(text.find(profile.unavailable) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_record_that_ends_before_it_begins_has_no_length) {
  Builder b;
  b.work(Work::kernel, 10, 5, 0, 7, "backwards");
  b.range(Phase::forward, 10, 5, 0, "range");
  b.call("call", 10, 5);
  const Trace trace(to_chrome_trace(b.profile, nullptr));
  for (const char* name : {"backwards", "range", "call"}) {
    BOOST_TEST(trace.slice(name).begin == 0);
    BOOST_TEST(trace.slice(name).length == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
