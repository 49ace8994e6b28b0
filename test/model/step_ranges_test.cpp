// step_ranges_test.cpp - a training step watched through its ranges: all of its work has a name and a phase, what is
// done again is told apart from what is done first, and watching changes no bit of it.
#include <algorithm>
#include <map>
#include <set>

#include "profiler/analysis.h"
#include "profiler/range.h"
#include "profiler/recorder.h"
#include "test/model/model_fixture.h"

namespace spillway::test {
namespace {

using namespace spillway::profiler;

struct Watched : HostDevice {
  Machine machine;

  Profile step(const std::string& strategy) {
    const model::Config config = tied_config();
    model::Trainer trainer(config, {.batch = 2, .seq = 15, .strategy = strategy}, machine.allocator);
    randomize(trainer.parameters(), 3);
    const data::TokenBatch tokens = random_batch(config, 2, 15, 4);
    unwatched = {trainer.step(tokens).loss};
    randomize(trainer.parameters(), 3);
    Recorder recorder;
    BOOST_TEST_REQUIRE(recorder.unavailable() == "");
    for (const auto& [stream, name] : trainer.streams()) recorder.name_stream(stream, name);
    result = trainer.step(tokens);
    watched = {result.loss};
    return recorder.stop();
  }
  std::vector<float> unwatched, watched;
  model::StepResult result;
};

BOOST_FIXTURE_TEST_SUITE(step_ranges, Watched)

BOOST_AUTO_TEST_CASE(all_work_of_a_step_belongs_to_a_range_under_every_strategy) {
  for (const char* strategy : {"baseline", "checkpoint", "offload", "hybrid", "offload-pageable"}) {
    BOOST_TEST_CONTEXT(strategy) {
      const Profile p = step(strategy);
      BOOST_TEST(p.completeness.complete());
      BOOST_TEST(p.completeness.records > 0);
      BOOST_TEST_REQUIRE(p.steps.size() == 1);
      for (const DeviceActivity& a : p.device)
        if (a.kind == DeviceActivity::Kind::kernel) BOOST_TEST(a.work != 0);
      const StepSplit split = analyze(p).split;
      BOOST_TEST(split.compute_ms + split.recompute_ms + split.optimizer_ms + split.exposed_copy_out_ms +
                         split.exposed_copy_in_ms + split.allocation_ms + split.idle_ms ==
                     split.step_ms,
                 boost::test_tools::tolerance(1e-9));
      BOOST_TEST((split.recompute_ms > 0) ==
                 (std::string(strategy) == "checkpoint" || std::string(strategy) == "hybrid"));
      BOOST_TEST(split.optimizer_ms > 0);
      BOOST_TEST(watched[0] == unwatched[0]);  // the first step's loss, from the same weights
    }
  }
}

BOOST_AUTO_TEST_CASE(copies_run_on_their_own_streams_and_in_their_own_phases) {
  const Profile p = step("offload");
  std::map<std::uint64_t, const RangeSpan*> ranges;
  for (const RangeSpan& r : p.ranges) ranges[r.id] = &r;
  std::map<std::uint32_t, std::string> streams;
  for (const StreamName& s : p.streams) streams[s.stream] = s.name;
  BOOST_TEST(streams.size() == 3);
  int out = 0, in = 0;
  for (const DeviceActivity& a : p.device) {
    const Phase phase = ranges.at(a.range)->phase;
    if (phase == Phase::offload) {
      BOOST_TEST((a.kind == DeviceActivity::Kind::device_to_host));
      BOOST_TEST(streams[a.stream] == "copy-out");
      ++out;
    } else if (phase == Phase::prefetch) {
      BOOST_TEST((a.kind == DeviceActivity::Kind::host_to_device));
      BOOST_TEST(streams[a.stream] == "copy-in");
      ++in;
    } else {
      BOOST_TEST(streams[a.stream] == "compute");
    }
  }
  BOOST_TEST(out > 0);
  BOOST_TEST(in == out);
}

BOOST_AUTO_TEST_CASE(ranges_nest_phase_layer_operator_within_the_step) {
  const Profile p = step("hybrid");
  std::map<std::uint64_t, const RangeSpan*> ranges;
  for (const RangeSpan& r : p.ranges) ranges[r.id] = &r;
  std::set<std::string> phases;
  for (const RangeSpan& r : p.ranges) {
    BOOST_TEST(r.host.end >= r.host.begin);
    if (r.parent == 0) continue;
    const RangeSpan& parent = *ranges.at(r.parent);
    BOOST_TEST(r.host.begin >= parent.host.begin);
    BOOST_TEST(r.host.end <= parent.host.end);
    if (parent.name == kStepRange) phases.insert(r.name);
    if (r.phase == Phase::recompute) BOOST_TEST((parent.layer == r.layer && parent.phase == Phase::backward));
  }
  BOOST_TEST((phases == std::set<std::string>{"forward", "backward", "optimizer"}));
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_leaves_no_range_open, *boost::unit_test::enable_if<kHostDevice>()) {
  const model::Config config = tied_config();
  model::Trainer trainer(config, {.batch = 2, .seq = 15}, machine.allocator);
  randomize(trainer.parameters(), 3);
  const data::TokenBatch tokens = random_batch(config, 2, 15, 4);
  trainer.step(tokens);
  Recorder recorder;
  hostcuda::fail_call("cudaLaunchKernel", 20, cudaErrorUnknown);
  BOOST_CHECK_THROW(trainer.step(tokens), std::exception);
  hostcuda::reset_faults();
  trainer.step(tokens);
  const Profile p = recorder.stop();
  BOOST_TEST(p.completeness.unattributed == 0);
  for (const RangeSpan& r : p.ranges)
    if (r.name == kStepRange) BOOST_TEST(r.parent == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
