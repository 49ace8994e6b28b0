// Experiment 73: the published run's deltas and decision, the rules against a plain second reading, and that a run
// varies exactly one thing.
#include "decision/training_baseline.h"

#include <random>

#include "test/decision/program.h"
#include "test/device_controls.h"

using namespace spillway::decision;
using namespace spillway::test;

namespace {

const char* const kRecord73 = kHostDevice ? "73_host_training.json" : "73_real_gpu_training.json";

// The tests vary the strategy: every device can.
std::string baseline(const std::filesystem::path& results, const std::string& more) {
  return fmt::format("baseline --model tiny --seq 32 --warmup 1 --iters 3 --repeats 2 --results {} --run r {}",
                     results.string(), more);
}

Variation vary(std::vector<std::string> tuned) {
  BaselineOptions o;
  o.tuned = std::move(tuned);
  return resolve_variation(o);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(experiment_73)

BOOST_AUTO_TEST_CASE(the_published_run_is_tuned_by_57_ms_and_8_mib) {
  const ArmFigures base{251.137, 9474.12, 12.0}, tuned{193.89, 9466.15, 12.0};
  const BaselineSummary s = compare(base, tuned);
  BOOST_TEST(std::abs(s.step_time_delta_ms - 57.25) <= 0.005);  // published to two decimals
  BOOST_TEST(s.peak_mem_delta_mb == 7.97);
  BOOST_TEST(s.time_improved);
  BOOST_TEST(s.memory_improved);
  BOOST_TEST(!s.meaningful_memory_improved);
  BOOST_TEST(decide_baseline(s, base, tuned).decision == "tune");
}

BOOST_AUTO_TEST_CASE(the_decision_is_the_protocols_sentence) {
  std::mt19937_64 random(73);
  // Figures on a coarse grid around the thresholds, so that each comparison is met exactly now and then.
  const auto pick = [&](std::initializer_list<double> of) { return *(of.begin() + random() % of.size()); };
  for (int i = 0; i < 20000; ++i) {
    const ArmFigures base{pick({100, 200}), pick({4096, 8192}), pick({0, 1, 10})};
    const ArmFigures tuned{base.step_time_ms - pick({-5, 0, 5, 9.5, 10, 50}),
                           base.peak_mem_mb - pick({-512, 0, 1, 511.5, 512, 2000}),
                           base.eval_loss * pick({0.5, 1, 1.0199, 1.02, 1.0201, 2})};
    const double time = base.step_time_ms - tuned.step_time_ms, memory = base.peak_mem_mb - tuned.peak_mem_mb;
    std::string expected = "reject";
    if (time > 0 || memory > 0) expected = "tune";
    if (time >= 10 && memory >= 512 && tuned.eval_loss <= base.eval_loss * 1.02) expected = "accept";
    BOOST_REQUIRE_EQUAL(decide_baseline(compare(base, tuned), base, tuned).decision, expected);
  }
}

BOOST_AUTO_TEST_CASE(speed_and_memory_alone_never_accept) {
  const ArmFigures base{200, 8192, 10}, worse{100, 4096, 10.3};
  const Decision d = decide_baseline(compare(base, worse), base, worse);
  BOOST_TEST(d.decision == "tune");
  BOOST_TEST(d.reason == "quality_below_floor");
}

BOOST_AUTO_TEST_CASE(one_variable_is_varied) {
  BOOST_TEST(vary({}).variable == "dtype");
  BOOST_TEST(vary({}).tuned.workload.dtype == "bfloat16");
  BOOST_TEST(vary({"dtype=bf16"}).tuned.workload.dtype == "bfloat16");
  BOOST_TEST(vary({"strategy=hybrid"}).tuned.strategy == "hybrid");
  BOOST_TEST(vary({"batch=4"}).tuned.workload.batch == 4);
  const Variation chunk = vary({"lmhead-chunk=0"});
  BOOST_TEST(chunk.baseline_value == "-1");
  BOOST_TEST(chunk.tuned_value == "0");
  BOOST_TEST(chunk.tuned.workload.dtype == chunk.baseline.workload.dtype);
}

BOOST_AUTO_TEST_CASE(a_run_that_would_vary_two_or_none_is_refused) {
  const TemporaryFolder tmp;
  const auto refused = [&](const std::string& more, const std::string& says) {
    check_refused(baseline(tmp.path() / "results", more), says);
  };
  refused("--tuned strategy=hybrid --tuned batch=2", "strategy and batch");
  refused("--tuned strategy=baseline", "too");
  refused("--tuned batch=2 --tuned batch=3", "batch twice");
  refused("--tuned lmhead-chunk=0", "both arms would take 32 tokens");
  refused("--tuned dtype=fp32", "too");
  refused("--tuned seq=64", "seq");
  refused("--tuned strategy", "variable=value");
  refused("--tuned batch=two", "two");
  refused("--tuned batch=99999999999999999999", "batch");
  refused("--tuned batch=0", "batch 0");
  refused("--tuned strategy=swap", "swap");
  refused("--tuned dtype=int8", "int8");
  check_refused("baseline --model tiny --seq 32 --tuned strategy=hybrid --repeats 0", "repeats 0");
  BOOST_TEST(!std::filesystem::exists(tmp.path() / "results"));
}

BOOST_AUTO_TEST_CASE(the_record_has_every_field_of_the_protocol_and_every_sample) {
  const TemporaryFolder tmp;
  const Result r = spillway_run(baseline(tmp.path(), "--tuned strategy=checkpoint"));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  const auto record = read(tmp.path() / "r" / kRecord73);
  const auto has = [](const nlohmann::json& node, std::initializer_list<const char*> keys) {
    for (const char* key : keys) BOOST_TEST_CONTEXT(key) BOOST_TEST(node.contains(key));
  };
  has(record, {"task", "stage", "next_stage", "config", "baseline", "tuned", "summary",
               "loss_delta_tuned_minus_baseline", "decision", "evidence_level"});
  BOOST_TEST(record["task"] == "task3_training_memory_optimization");
  BOOST_TEST(record["stage"] == "measurement_baseline");
  has(record["config"], {"model_id", "batch_size", "seq_len", "warmup", "iters", "repeats", "amp_dtype", "optimizer",
                         "torch", "torch_cuda", "driver", "device", "seed", "varied", "git_commit"});
  BOOST_TEST(record["config"]["varied"] == "strategy");
  has(record["summary"], {"step_time_delta_ms", "peak_mem_delta_mb", "time_improved", "memory_improved",
                          "time_improvement_pct", "memory_improvement_pct", "meaningful_memory_improved"});
  has(record["decision"], {"decision", "reason"});
  for (const char* arm : {"baseline", "tuned"}) {
    const auto& a = record[arm];
    has(a, {"step_time_ms", "samples_per_s", "loss", "eval_loss", "peak_mem_mb", "peak_reserved_mb", "samples"});
    BOOST_TEST(a["samples"].size() == 6U);
    std::vector<double> times;
    for (const auto& s : a["samples"]) times.push_back(s["step_time_ms"]);
    std::sort(times.begin(), times.end());
    BOOST_TEST(a["step_time_ms"].get<double>() == (times[2] + times[3]) / 2);
    BOOST_TEST(a["losses_agree"] == true);
  }
  BOOST_TEST(record["baseline"]["eval_loss"] == record["tuned"]["eval_loss"]);
  BOOST_TEST(record["loss_delta_tuned_minus_baseline"] == 0.0);
  check_bytes_beside_mebibytes(record);

  const Result again = spillway_run(baseline(tmp.path(), "--tuned strategy=checkpoint"));
  BOOST_TEST(again.status == 1);
  BOOST_TEST(again.err.find(kRecord73) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_arm_without_memory_is_told_and_rejected, *boost::unit_test::enable_if<kHostDevice>()) {
  const TemporaryFolder tmp;
  const Result r = spillway_run(baseline(tmp.path(), "--tuned batch=4096 --device-memory 64MiB"));
  BOOST_TEST(r.status == 1);
  const auto record = read(tmp.path() / "r" / kRecord73);
  BOOST_TEST(record["tuned"]["status"] == "oom");
  BOOST_TEST(record["baseline"]["status"] == "ok");
  BOOST_TEST(record["summary"].is_null());
  BOOST_TEST(record["decision"]["reason"] == "tuned_not_measured");
}

BOOST_AUTO_TEST_SUITE_END()
