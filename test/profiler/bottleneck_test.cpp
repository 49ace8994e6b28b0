// The bottleneck: every rule reached, each threshold on both of its sides, and predictions that follow their models.
#include <limits>

#include "profiler/analysis.h"
#include "test/fixture.h"
#include "test/profiler/profiles.h"

using namespace spillway::test;

namespace {

constexpr std::int64_t kGiB = 1LL << 30;

// A step of 100 ms; no rule before the roofline is met. Ceilings: 10 TFLOP/s, 100 GB/s.
BottleneckInput calm() {
  BottleneckInput in;
  in.analysis.steps = 2;
  in.analysis.split.step_ms = 100;
  in.analysis.ratios.compute = 1;
  in.ceilings.tflops = 10;
  in.ceilings.memory_gbs = 100;
  in.capacity_bytes = 10 * kGiB;
  in.reserved_bytes = kGiB;
  return in;
}

// An operator of both steps, `ms` long together, that reaches these shares of the two ceilings.
void add(BottleneckInput& in, const std::string& name, double ms, double compute, double bandwidth) {
  Operator op;
  op.name = name;
  op.calls = 1;
  op.total_ms = ms;
  op.share = ms / 200;
  if (compute > 0) op.achieved_tflops = compute * *in.ceilings.tflops;
  if (bandwidth > 0) op.achieved_gbs = bandwidth * *in.ceilings.memory_gbs;
  in.analysis.operators.push_back(op);
}

BottleneckInput with(double exposed, double idle, double idle_host) {
  BottleneckInput in = calm();
  Ratios& r = in.analysis.ratios;
  r.compute = 1 - exposed - idle;
  r.memory = exposed;
  r.overlap = 0;
  r.exposed_transfer = exposed;
  r.idle = idle;
  r.idle_host = idle_host;
  r.idle_gap = idle - idle_host;
  in.analysis.split.exposed_copy_out_ms = 100 * exposed;
  add(in, "matmul", 200, 0.9, 0.1);
  return in;
}

std::string category(const BottleneckInput& in) {
  const Bottleneck found = find_bottleneck(in);
  BOOST_TEST(!found.evidence.empty());
  BOOST_TEST(!found.optimization.empty());
  return found.category;
}

void has(const std::string& text, const std::string& part) {
  BOOST_TEST_CONTEXT(text) BOOST_TEST(text.find(part) != std::string::npos, part);
}

const auto nearly = boost::test_tools::tolerance(1e-9);

}  // namespace

BOOST_AUTO_TEST_SUITE(bottleneck)

BOOST_AUTO_TEST_CASE(capacity_is_met_by_an_oom_a_retry_or_nine_tenths_reserved) {
  BottleneckInput in = with(0, 0, 0);
  in.reserved_bytes = 9 * kGiB - 1;
  BOOST_TEST(category(in) == "compute");
  in.reserved_bytes = 9 * kGiB;
  BOOST_TEST(category(in) == "capacity");
  has(find_bottleneck(in).evidence, "9216.0 MiB of 10240.0 MiB (90.0 %, threshold 90.0 %)");
  in.reserved_bytes = 0;
  in.ooms = 1;
  BOOST_TEST(category(in) == "capacity");
  in.ooms = 0;
  in.allocator_retries = 1;
  BOOST_TEST(category(in) == "capacity");
  BOOST_TEST(!find_bottleneck(in).predicted_saving_ms.has_value());
  in.allocator_retries = 0;
  in.capacity_bytes = 0;  // not known
  in.reserved_bytes = 9 * kGiB;
  BOOST_TEST(category(in) == "compute");
}

BOOST_AUTO_TEST_CASE(transfer_needs_a_fifth_exposed_and_more_than_idle) {
  BOOST_TEST(category(with(0.2, 0, 0)) == "transfer");
  BOOST_TEST(category(with(0.1999, 0, 0)) == "compute");
  BOOST_TEST(category(with(0.3, 0.2999, 0.2999)) == "transfer");
  BOOST_TEST(category(with(0.3, 0.3, 0.3)) == "launch");  // as much idle as exposed
  BottleneckInput both = with(0.3, 0, 0);
  both.ooms = 1;
  BOOST_TEST(category(both) == "capacity");
}

BOOST_AUTO_TEST_CASE(launch_needs_a_fifth_idle_and_half_of_it_waiting_for_the_host) {
  BOOST_TEST(category(with(0, 0.2, 0.1)) == "launch");
  BOOST_TEST(category(with(0, 0.1999, 0.1999)) == "compute");
  BOOST_TEST(category(with(0, 0.5, 0.2499)) == "compute");
}

BOOST_AUTO_TEST_CASE(the_roofline_decides_between_latency_compute_memory_and_balance) {
  const auto of = [](double compute, double bandwidth) {
    BottleneckInput in = calm();
    add(in, "op", 200, compute, bandwidth);
    return category(in);
  };
  BOOST_TEST(of(0.59, 0.59) == "latency");
  BOOST_TEST(of(0.59, 0) == "latency");
  BOOST_TEST(of(0.6, 0.1) == "compute");
  BOOST_TEST(of(0.1, 0.6) == "memory_bandwidth");
  BOOST_TEST(of(0.8, 0.75) == "balanced");
  BOOST_TEST(of(0.75, 0.8) == "balanced");
}

BOOST_AUTO_TEST_CASE(a_lead_of_exactly_the_margin_decides) {
  BottleneckThresholds t;
  t.balanced_margin = 0.125;  // exact in binary, as are the shares
  for (const double lead : {0.125, 0.1249}) {
    BottleneckInput in = calm();
    in.ceilings = {1.0, 1.0, {}, {}};
    add(in, "op", 200, 0.75, 0.75 - lead);
    BOOST_TEST(find_bottleneck(in, t).category == (lead == 0.125 ? "compute" : "balanced"));
    in.analysis.operators.clear();
    add(in, "op", 200, 0.75 - lead, 0.75);
    BOOST_TEST(find_bottleneck(in, t).category == (lead == 0.125 ? "memory_bandwidth" : "balanced"));
  }
}

BOOST_AUTO_TEST_CASE(the_roofline_weighs_operators_by_their_time) {
  BottleneckInput in = calm();
  add(in, "fast", 50, 0.9, 0.1);
  add(in, "slow", 150, 0.2, 0.3);
  BOOST_TEST(category(in) == "latency");
  has(find_bottleneck(in).evidence, "37.5 % of 10.00 TFLOP/s");  // (50 x 0.9 + 150 x 0.2) / 200
  has(find_bottleneck(in).evidence, "25.0 % of 100.0 GB/s");
  has(find_bottleneck(in).evidence, "45.0 % of the nearer");  // (50 x 0.9 + 150 x 0.3) / 200
  std::swap(in.analysis.operators[0].total_ms, in.analysis.operators[1].total_ms);
  BOOST_TEST(category(in) == "compute");
}

BOOST_AUTO_TEST_CASE(halves_at_opposite_ceilings_are_balanced_not_slow) {
  BottleneckInput in = calm();
  add(in, "matmul", 100, 0.9, 0.05);
  add(in, "norm", 100, 0.05, 0.9);
  BOOST_TEST(category(in) == "balanced");
}

BOOST_AUTO_TEST_CASE(what_is_not_known_is_said_and_not_guessed) {
  const auto undetermined = [](const BottleneckInput& in, const std::string& says) {
    const Bottleneck found = find_bottleneck(in);
    BOOST_TEST(found.category == "undetermined");
    BOOST_TEST(!found.predicted_saving_ms.has_value());
    has(found.evidence, says);
  };
  BottleneckInput in = calm();
  undetermined(in, "no launch declared its work");
  add(in, "undeclared", 200, 0, 0);
  undetermined(in, "no launch declared its work");
  add(in, "matmul", 100, 0.9, 0.1);
  BottleneckInput no_flops = in, no_bytes = in, neither = in;
  no_flops.ceilings.tflops.reset();
  undetermined(no_flops, "the arithmetic ceiling was not measured");
  no_bytes.ceilings.memory_gbs.reset();
  undetermined(no_bytes, "the memory ceiling was not measured");
  neither.ceilings = {};
  undetermined(neither, "neither the arithmetic nor the memory ceiling");

  BOOST_TEST(category(in) == "compute");
  has(find_bottleneck(in).evidence, "launches that declare their work are 50.0 % of kernel time");
  BottleneckInput earlier = with(0.3, 0, 0);
  earlier.ceilings = {};
  BOOST_TEST(category(earlier) == "transfer");  // a rule that needs no ceiling
}

BOOST_AUTO_TEST_CASE(a_transfer_can_save_what_kernels_have_room_to_hide) {
  BottleneckInput in = with(0.3, 0, 0);
  BOOST_TEST(find_bottleneck(in).predicted_saving_ms.value() == 30, nearly);
  has(find_bottleneck(in).evidence, "30.0 % of the step (out 30.000 ms, in 0.000 ms, threshold 20.0 %)");
  has(find_bottleneck(in).optimization, "Copies out are what waits most");
  in.analysis.split.exposed_copy_in_ms = 20;
  in.analysis.split.exposed_copy_out_ms = 10;
  has(find_bottleneck(in).optimization, "Copies in are what waits most");

  in = with(0.6, 0, 0);  // kernels run for 40 ms, 20 of them beside a copy
  in.analysis.ratios.memory = 0.8;
  in.analysis.ratios.overlap = 0.25;
  BOOST_TEST(find_bottleneck(in).predicted_saving_ms.value() == 20, nearly);
}

BOOST_AUTO_TEST_CASE(a_launch_can_save_what_the_device_waited_for_the_host) {
  BottleneckInput in = with(0, 0.4, 0.3);
  BOOST_TEST(find_bottleneck(in).predicted_saving_ms.value() == 30, nearly);
  has(find_bottleneck(in).evidence, "40.0 % of the step (threshold 20.0 %), and for 75.0 % of that (30.000 ms");
  has(find_bottleneck(in).optimization, "fewer and larger launches");
  in.analysis.split.allocation_ms = 15;
  has(find_bottleneck(in).optimization, "Keep memory");
}

BOOST_AUTO_TEST_CASE(the_roofline_can_save_what_operators_lack_to_four_fifths_of_their_roof) {
  BottleneckInput in = calm();
  add(in, "good", 60, 0.9, 0.1);                 // nothing to gain
  add(in, "half", 100, 0.4, 0.2);                // could run twice as fast: 50 ms of both steps
  add(in, "poor", 40, 0.1, 0.2);                 // four times: 30 ms
  const Bottleneck found = find_bottleneck(in);  // 80 ms over two steps
  BOOST_TEST(found.category == "latency");
  BOOST_TEST(found.predicted_saving_ms.value() == 40, nearly);
  has(found.optimization, "Begin with half, which takes 50.000 ms a step at 40.0 % of its roof");
  has(found.optimization, "80.0 % of its roof, a step would be 40.000 ms shorter");
}

BOOST_AUTO_TEST_CASE(the_margin_is_the_excess_over_the_threshold_and_the_runner_up_comes_closest) {
  Bottleneck found = find_bottleneck(with(0.3, 0.18, 0.18));
  BOOST_TEST(found.category == "transfer");
  BOOST_TEST(found.margin == 0.5, nearly);      // 0.3 of 0.2; of 0.18 it is further
  BOOST_TEST(found.runner_up == "compute");     // met too
  found = find_bottleneck(with(0.3, 0.29, 0));  // the narrower of its two conditions
  BOOST_TEST(found.margin == 0.3 / 0.29 - 1, nearly);
  BottleneckInput slow = with(0.1, 0.18, 0.18);
  slow.analysis.operators[0].achieved_tflops = 3;
  found = find_bottleneck(slow);
  BOOST_TEST(found.category == "latency");
  BOOST_TEST(found.margin == 0.5, nearly);
  BOOST_TEST(found.runner_up == "launch");  // a tenth short; compute is half short
  BottleneckInput full = with(0, 0, 0);
  full.reserved_bytes = 10 * kGiB;
  full.analysis.operators.clear();
  found = find_bottleneck(full);
  BOOST_TEST(found.margin == 1 / 0.9 - 1, nearly);
  BOOST_TEST(found.runner_up.empty());
}

BOOST_AUTO_TEST_CASE(thresholds_move_the_rules_and_must_be_above_zero) {
  BottleneckThresholds t;
  t.exposed = 0.1;
  BOOST_TEST(find_bottleneck(with(0.15, 0, 0), t).category == "transfer");
  for (double BottleneckThresholds::*threshold :
       {&BottleneckThresholds::reserved_share, &BottleneckThresholds::exposed, &BottleneckThresholds::idle,
        &BottleneckThresholds::idle_host_share, &BottleneckThresholds::roofline_share,
        &BottleneckThresholds::balanced_margin})
    for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
      BottleneckThresholds broken;
      broken.*threshold = bad;
      BOOST_CHECK_THROW(find_bottleneck(with(0, 0, 0), broken), std::invalid_argument);
    }
}

BOOST_AUTO_TEST_CASE(numbers_are_never_in_scientific_notation) {
  BottleneckInput in = with(0, 0, 0);
  in.ceilings = {989.4, 123456.7, {}, {}};
  has(find_bottleneck(in).evidence, "of 989.40 TFLOP/s");
  has(find_bottleneck(in).evidence, "of 123456.7 GB/s");
}

BOOST_AUTO_TEST_CASE(a_profile_is_judged_as_its_hand_made_kind) {
  // Copies out of 60 ms behind nothing, a kernel of 40 ms.
  Builder slow_link;
  slow_link.step(0, 100'000'000);
  slow_link.declared("matmul", 0, 40'000'000, 1, 1);
  slow_link.work(Work::device_to_host, 40'000'000, 100'000'000);
  BottleneckInput in;
  in.analysis = analyze(slow_link.profile);
  Bottleneck found = find_bottleneck(in);
  BOOST_TEST(found.category == "transfer");
  BOOST_TEST(found.predicted_saving_ms.value() == 40, nearly);

  // Kernels of 1 ms that the host issues every 2 ms.
  Builder slow_host;
  slow_host.step(0, 100'000'000);
  for (std::uint32_t i = 0; i < 50; ++i) {
    const Nanoseconds at = static_cast<Nanoseconds>(i) * 2'000'000;
    slow_host.call("cudaLaunchKernel", at + 900'000, at + 1'000'000, i + 1);
    slow_host.kernel(at + 1'000'000, at + 2'000'000).correlation = i + 1;
  }
  in.analysis = analyze(slow_host.profile);
  found = find_bottleneck(in);
  BOOST_TEST(found.category == "launch");
  BOOST_TEST(found.predicted_saving_ms.value() == 50, nearly);
}

BOOST_AUTO_TEST_SUITE_END()
