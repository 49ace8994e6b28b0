// Experiment 74: its rules as a table; the step that it profiles against what is planted in it: a slow link moves the
// bottleneck to transfer by as much as was added, a slow host to launch, a small device to capacity.
#include "decision/profiling_closeout.h"

#include "decision/json_file.h"
#include "test/decision/program.h"
#include "test/device_controls.h"

using namespace spillway;
using namespace spillway::decision;
using namespace spillway::test;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

CloseoutFigures good() {
  CloseoutFigures f;
  f.profiled = f.profile_complete = f.loss_equal = true;
  f.explained = true;
  f.time_delta_ms = -20;
  f.samples_per_s_delta = -1;
  f.memory_delta_bytes = 1e8;
  return f;
}
std::string decided(const CloseoutFigures& f) {
  const Decision d = decide_closeout(f, {});
  return d.decision + " " + d.reason;
}

Json candidate(const char* name, double peak, const char* status = "ok") {
  return {{"name", name}, {"status", status}, {"peak_memory_mb", peak}, {"samples_per_s", 2.0}, {"eval_loss", 9.0}};
}

const Watcher kQuiet{[](const std::string&) {}, [] { return false; }};

// Where kernels take as long as they do in training: what is planted is measured against them.
#if defined(SPILLWAY_SERIAL) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
constexpr bool kTrainingSpeed = kHostDevice;
#else
constexpr bool kTrainingSpeed = false;
#endif

// Everything that 74 measures of tiny, with a candidate of one's choice.
struct Tiny {
  ~Tiny() {
    hostcuda::reset_faults();
    hostcuda::set_device_memory(memory);
  }
  Closeout run(const std::string& strategy, int iters = 3) {
    WorkloadOptions w;
    w.model = "tiny";
    w.seq = 64;
    const DeviceInfo device = require_device();
    Workload workload(w, device);
    CloseoutOptions o;
    o.steps = {1, iters, 1};
    return run_closeout(o, {strategy, "the test", false}, {}, device, workload, kQuiet);
  }
  std::int64_t memory = hostcuda::device_memory();
};

double exposed_ms(const Closeout& c) {
  const profiler::StepSplit& s = c.tuned.analysis->split;
  return s.exposed_copy_out_ms + s.exposed_copy_in_ms;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(profiling_closeout)

BOOST_AUTO_TEST_CASE(the_rules_decide_in_the_protocols_order) {
  CloseoutFigures f = good();
  BOOST_TEST(decided(f) == "tune gain_below_threshold");  // memory alone
  f.accepted_by_75 = true;
  BOOST_TEST(decided(f) == "accept memory_saving_accepted_and_time_cost_explained");
  f.explained = false;
  BOOST_TEST(decided(f) == "tune time_cost_not_explained_by_profile");
  f.time_delta_ms = 10;
  f.samples_per_s_delta = 0.1;
  BOOST_TEST(decided(f) == "accept end_to_end_gain_meets_thresholds");
  f.profile_complete = false;
  BOOST_TEST(decided(f) == "tune profiling_evidence_partial");
  f.loss_equal = false;
  BOOST_TEST(decided(f) == "reject losses_differ");
  f.profiled = false;
  BOOST_TEST(decided(f) == "tune profiling_evidence_missing");
  f = good();
  f.time_delta_ms = 9.9;
  f.samples_per_s_delta = 1;
  BOOST_TEST(decided(f) == "tune gain_below_threshold");
  f.time_delta_ms = -1;
  f.samples_per_s_delta = -1;
  f.memory_delta_bytes = 0;
  BOOST_TEST(decided(f) == "reject no_end_to_end_gain");
}

BOOST_AUTO_TEST_CASE(a_difference_is_explained_within_a_tenth_of_itself_or_when_there_is_none_to_tell) {
  const CloseoutThresholds t;
  BOOST_TEST(explains(20, 22, 0, t));
  BOOST_TEST(!explains(20, 22.1, 0, t));
  BOOST_TEST(explains(-20, -18, 0, t));
  BOOST_TEST(!explains(20, -20, 0, t));
  BOOST_TEST(explains(1, -1, 1.5, t));
  BOOST_TEST(!explains(1, 3, 1.5, t));  // the profile sees what the clock did not
}

BOOST_AUTO_TEST_CASE(the_noise_of_a_difference_shrinks_with_the_root_of_the_samples) {
  BOOST_TEST(noise_of_difference({5, 5, 5}, {7, 7, 7}) == 0);
  const std::vector<double> four = {9, 11, 9, 11}, sixteen = {9, 11, 9, 11, 9, 11, 9, 11, 9, 11, 9, 11, 9, 11, 9, 11};
  const double wide = noise_of_difference(four, four), narrow = noise_of_difference(sixteen, sixteen);
  BOOST_TEST(wide == 2 * narrow, boost::test_tools::tolerance(1e-12));
  // MAD 1, so sigma 1.4826; a median's error is 1.2533 sigma / 2; two of them, twice.
  BOOST_TEST(wide == 2 * std::sqrt(2.0) * 1.4826 * 1.2533 / 2, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(tuned_is_75s_best_else_76s_else_the_smallest) {
  const auto record = [](Json best, const char* decision) {
    return Json{{"summary", {{"best_candidate", std::move(best)}}},
                {"decision", {{"decision", decision}}},
                {"candidates",
                 {candidate("baseline", 300), candidate("offload", 200), candidate("hybrid", 210),
                  candidate("checkpoint", 100, "oom")}}};
  };
  const TunedChoice first = choose_tuned(record("offload", "tune"), record("hybrid", "accept"));
  BOOST_TEST(first.name == "hybrid");
  BOOST_TEST(first.accepted_by_75);
  const TunedChoice second = choose_tuned(record("hybrid", "accept"), record(nullptr, "reject"));
  BOOST_TEST(second.name == "hybrid");
  BOOST_TEST(!second.accepted_by_75);
  const TunedChoice third = choose_tuned(record("baseline", "tune"), record("baseline", "tune"));
  BOOST_TEST(third.name == "offload");
  BOOST_TEST(third.chosen_by.find("smallest peak") != std::string::npos);
  Json alone = record("baseline", "tune");
  alone["candidates"] = {candidate("baseline", 300)};
  BOOST_CHECK_THROW(choose_tuned(alone, record("baseline", "tune")), Error);
}

BOOST_AUTO_TEST_CASE(the_profile_of_a_step_is_whole_and_sums_to_it, *boost::unit_test::enable_if<kHostDevice>()) {
  Tiny tiny;
  const Closeout c = tiny.run("hybrid");
  BOOST_TEST(c.figures.profiled);
  BOOST_TEST(c.figures.profile_complete);
  BOOST_TEST(c.figures.loss_equal);
  for (const ProfiledCandidate* p : {&c.baseline, &c.tuned}) {
    const profiler::StepSplit& s = p->analysis->split;
    BOOST_TEST(s.step_ms == s.compute_ms + s.recompute_ms + s.optimizer_ms + s.exposed_copy_out_ms +
                                s.exposed_copy_in_ms + s.allocation_ms + s.idle_ms,
               boost::test_tools::tolerance(1e-9));
    BOOST_TEST(s.optimizer_ms > 0);
    BOOST_TEST((s.recompute_ms > 0) == (p == &c.tuned));
    BOOST_TEST(p->step->steps.size() == 1);
    BOOST_TEST(!p->memory.points.empty());
  }
  const Json record = closeout_record(c, {}, "test");
  check_bytes_beside_mebibytes(record);
  BOOST_TEST(record["profile"]["communication_ratio"] == "not_applicable");
  BOOST_TEST(record["profile"]["completeness"]["dropped"] == 0);
  BOOST_TEST(record["profile"]["top_operators"][0]["calls"].get<int>() > 0);
  BOOST_TEST(closeout_decision_of(record).reason == c.decision.reason);
}

// Copies so slow that kernels hide little of them: what a slower link adds is bytes / rate, and it is all exposed.
BOOST_AUTO_TEST_CASE(a_slow_link_moves_the_bottleneck_to_transfer_by_what_it_adds,
                     *boost::unit_test::enable_if<kTrainingSpeed>()) {
  Tiny tiny;
  constexpr double kSlow = 0.01, kSlower = 0.005;  // GB/s
  hostcuda::set_link_gbps(kSlow);
  const Closeout slow = tiny.run("offload");
  hostcuda::set_link_gbps(kSlower);
  const Closeout slower = tiny.run("offload");
  std::int64_t bytes = 0;
  for (const profiler::DeviceActivity& a : slower.tuned.step->device)
    if (a.kind == profiler::DeviceActivity::Kind::device_to_host ||
        a.kind == profiler::DeviceActivity::Kind::host_to_device)
      bytes += a.bytes;
  const double added = static_cast<double>(bytes) * (1 / kSlower - 1 / kSlow) / 1e6;
  BOOST_TEST_MESSAGE("added " << added << " ms, exposed " << exposed_ms(slow) << " -> " << exposed_ms(slower));
  BOOST_TEST(slow.tuned.bottleneck->category == "transfer");
  BOOST_TEST(slower.tuned.bottleneck->category == "transfer");
  BOOST_TEST(exposed_ms(slower) - exposed_ms(slow) == added, boost::test_tools::tolerance(0.1));
}

BOOST_AUTO_TEST_CASE(a_slow_host_moves_the_bottleneck_to_launch, *boost::unit_test::enable_if<kTrainingSpeed>()) {
  Tiny tiny;
  hostcuda::delay_host(std::chrono::microseconds(300));
  const Closeout c = tiny.run("checkpoint");
  BOOST_TEST(c.tuned.bottleneck->category == "launch", c.tuned.bottleneck->evidence);
  BOOST_TEST(c.tuned.analysis->ratios.idle_host > c.tuned.analysis->ratios.idle_gap);
}

BOOST_AUTO_TEST_CASE(a_small_device_moves_the_bottleneck_to_capacity, *boost::unit_test::enable_if<kHostDevice>()) {
  Tiny tiny;
  const std::int64_t reserved = tiny.run("checkpoint").baseline.measured.peak_reserved_bytes;
  hostcuda::set_device_memory(reserved + reserved / 20);
  const Closeout c = tiny.run("checkpoint");
  BOOST_TEST(c.baseline.bottleneck->category == "capacity", c.baseline.bottleneck->evidence);
}

BOOST_AUTO_TEST_CASE(a_run_without_its_sources_is_refused_and_left_as_it_was,
                     *boost::unit_test::enable_if<kHostDevice>()) {
  const TemporaryFolder tmp;
  fs::create_directories(tmp.path() / "r");
  for (const char* record : {"73_host_training.json", "76_host_memory.json", "75_memory_budget_decision.json"}) {
    check_refused("profile " + (tmp.path() / "r").string(), record);
    std::ofstream(tmp.path() / "r" / record) << "{}";
  }
  check_refused("profile " + (tmp.path() / "r").string(), "candidates is no array");
  check_refused("profile /nonexistent", "/nonexistent");
  for (const auto& entry : fs::directory_iterator(tmp.path() / "r")) BOOST_TEST(fs::file_size(entry) == 2U);
}

BOOST_AUTO_TEST_CASE(the_next_run_is_held_against_what_the_last_one_predicted,
                     *boost::unit_test::enable_if<kHostDevice>()) {
  Tiny tiny;
  const Closeout c = tiny.run("checkpoint");
  const Json previous = {{"config", {{"tuned", "hybrid"}, {"git_commit", "abc"}}},
                         {"bottleneck", {{"category", "transfer"}, {"predicted_saving_ms", 4.0}}},
                         {"candidates",
                          {{{"name", "baseline"}, {"metrics", {{"step_time_ms", 90.0}}}},
                           {{"name", "tuned"}, {"metrics", {{"step_time_ms", 100.0}}}}}}};
  const Json compared = compare_with_previous(c, previous, "../before/74.json");
  BOOST_TEST(compared["predicted_saving_ms"] == 4.0);
  BOOST_TEST(compared["measured_saving_ms"].get<double>() == 100 - median_step_ms(c.tuned.measured),
             boost::test_tools::tolerance(1e-12));
  Json none = previous;
  none["bottleneck"]["predicted_saving_ms"] = nullptr;
  BOOST_TEST(compare_with_previous(c, none, "x").is_null());
}

BOOST_AUTO_TEST_SUITE_END()
