// A trace comes back as the profiler wrote it: lanes by their names, phases, and one step cut out of all.
#include "decision/report/trace_reading.h"

#include "decision/json_file.h"
#include "profiler/trace.h"
#include "runtime/error.h"
#include "test/fixture.h"

using namespace spillway;
using decision::Node;
using decision::Record;
using decision::StepTrace;

namespace {

// Three steps of 100, 300 and 200 µs, in each a kernel, a copy over its end, and the range and the call that issued
// them.
profiler::Profile three_steps() {
  profiler::Profile p;
  p.tool = "hostcuda";
  p.streams = {{7, "compute"}, {8, "copy-out"}};
  profiler::Nanoseconds at = 5000;
  std::uint32_t correlation = 0;
  for (const profiler::Nanoseconds length : {100'000, 300'000, 200'000}) {
    const std::uint64_t range = p.ranges.size() + 1;
    p.ranges.push_back({range, 0, profiler::Phase::backward, 2, "layer 2", {at, at + 30'000}, 1});
    p.host.push_back(
        {profiler::HostActivity::Kind::call, "cudaLaunchKernel", {at + 1000, at + 2000}, 1, ++correlation, range});
    p.device.push_back(
        {profiler::DeviceActivity::Kind::kernel, "k", {at + 3000, at + length}, 7, correlation, range, 0, 0});
    p.device.push_back({profiler::DeviceActivity::Kind::device_to_host,
                        "copy",
                        {at + length - 9000, at + length + 9000},
                        8,
                        0,
                        0,
                        0,
                        64});
    p.steps.push_back({{at, at + length}});
    at += length + 50'000;
  }
  return p;
}

StepTrace read(const std::string& text) {
  const Record record{"t.json", decision::parse_json(text, "t.json")};
  return decision::read_step(Node(record));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(trace_reading)

BOOST_AUTO_TEST_CASE(the_step_of_median_length_comes_back_with_its_lanes) {
  const StepTrace t = read(profiler::to_chrome_trace(three_steps(), nullptr));
  BOOST_TEST(t.steps == 3u);
  BOOST_TEST(t.step.name == "step 3");
  BOOST_TEST(t.step.end - t.step.begin == 200.0, boost::test_tools::tolerance(1e-9));
  BOOST_REQUIRE(t.lanes.size() == 3u);
  BOOST_TEST(t.lanes[0].name == "host thread 1");
  BOOST_TEST(!t.lanes[0].device);
  BOOST_REQUIRE(t.lanes[0].slices.size() == 2u);
  BOOST_TEST(t.lanes[0].slices[0].category == "backward");
  BOOST_TEST(t.lanes[0].slices[1].category == "call");
  BOOST_TEST(t.lanes[1].name == "compute");
  BOOST_TEST(t.lanes[1].device);
  BOOST_TEST(t.lanes[1].slices.at(0).phase == "backward");
  BOOST_TEST(t.lanes[1].slices.at(0).begin - t.step.begin == 3.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(t.lanes[2].name == "copy-out");
  BOOST_TEST(t.lanes[2].slices.at(0).category == "device_to_host");
  BOOST_TEST(t.lanes[2].slices.at(0).end == t.step.end);  // cut where the step ends
}

BOOST_AUTO_TEST_CASE(what_is_no_trace_is_refused) {
  BOOST_CHECK_THROW(read("{}"), Error);
  BOOST_CHECK_THROW(read(R"({"traceEvents": []})"), Error);
  BOOST_CHECK_THROW(read(R"({"traceEvents": [{"ph": "X", "pid": 2, "tid": 1, "dur": 1}]})"), Error);
}

BOOST_AUTO_TEST_SUITE_END()
