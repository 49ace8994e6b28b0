// Where a step's time went: hand-made profiles with known answers, and random ones against asking every nanosecond.
#include "profiler/analysis.h"

#include <algorithm>
#include <map>
#include <random>

#include "test/fixture.h"
#include "test/profiler/profiles.h"

using namespace spillway::test;

namespace {

// Which part of a step's split every nanosecond belongs to, by looking at everything that happened in it.
class EveryNanosecond {
 public:
  explicit EveryNanosecond(const Profile& profile) : profile_(profile) {
    for (const StepSpan& step : profile.steps)
      for (Nanoseconds at = step.time.begin; at < step.time.end; ++at) count(at, step.time);
  }
  double share(const std::string& what) const { return of(what, of("step", 1)); }
  double per_step_ms(const std::string& what) const {
    return of(what, 1e6 * static_cast<double>(profile_.steps.size()));
  }
  double of(const std::string& what, double total) const {
    const auto found = counts_.find(what);
    return found == counts_.end() ? 0 : static_cast<double>(found->second) / total;
  }

 private:
  static bool holds(const Interval& i, Nanoseconds at) { return i.begin <= at && at < i.end; }
  bool within(std::uint64_t range, Phase phase, Phase unless) const {
    for (const RangeSpan& r : profile_.ranges)
      if (r.id == range) return r.phase == phase || (r.phase != unless && within(r.parent, phase, unless));
    return false;
  }
  bool busy(Nanoseconds at) const {
    return std::any_of(profile_.device.begin(), profile_.device.end(),
                       [&](const DeviceActivity& d) { return holds(d.time, at); });
  }
  // The host had not yet issued what ended the idling that `at` is part of.
  bool waits_for_host(Nanoseconds at, const Interval& step) const {
    Nanoseconds next = at;
    while (next < step.end && !busy(next)) ++next;
    if (next == step.end) return false;
    bool known = false, had = false;
    for (const DeviceActivity& d : profile_.device)
      for (const HostActivity& h : profile_.host) {
        if (d.time.begin != next || d.time.end == next || h.correlation != d.correlation) continue;
        const bool lasting =
            (d.kind == Work::host_to_device || d.kind == Work::device_to_host) && h.time.end >= d.time.end;
        known = true;
        had |= at >= (lasting ? h.time.begin : h.time.end);
      }
    return known && !had;
  }
  void count(Nanoseconds at, const Interval& step) {
    bool kernel = false, in = false, out = false, optimizer = false, recompute = false, allocation = false;
    for (const DeviceActivity& d : profile_.device) {
      if (!holds(d.time, at)) continue;
      (d.kind == Work::host_to_device ? in : d.kind == Work::device_to_host ? out : kernel) = true;
      if (d.kind == Work::host_to_device || d.kind == Work::device_to_host) continue;
      optimizer |= within(d.range, Phase::optimizer, Phase::recompute);
      recompute |= within(d.range, Phase::recompute, Phase::optimizer);
    }
    for (const HostActivity& h : profile_.host) allocation |= h.name == "cudaMalloc" && holds(h.time, at);
    ++counts_["step"];
    counts_["kernel"] += kernel;
    counts_["copy"] += in || out;
    counts_["overlap"] += kernel && (in || out);
    if (!kernel && !in && !out) ++counts_[waits_for_host(at, step) ? "idle host" : "idle gap"];
    ++counts_[kernel       ? (optimizer   ? "optimizer"
                              : recompute ? "recompute"
                                          : "compute")
              : out        ? "out"
              : in         ? "in"
              : allocation ? "allocation"
                           : "idle"];
  }
  const Profile& profile_;
  std::map<std::string, std::int64_t> counts_;
};

void add_noise(Profile& profile) {
  Builder b{profile};
  b.host(HostActivity::Kind::synchronization, 0, 1000, 1);
  b.host(HostActivity::Kind::synchronization, 3, 40, 2).name = "cudaMalloc";
  b.host(HostActivity::Kind::overhead, 0, 500, 1);
  b.call("cudaStreamSynchronize", 0, 1000);
  b.call("cudaEventRecord", 10, 20, 999);
  profile = b.profile;
  std::rotate(profile.host.begin(), profile.host.end() - 5, profile.host.end());  // first come, first seen
}

void check_equal(const Analysis& a, const Analysis& b) {
  BOOST_TEST(a.ratios.compute == b.ratios.compute);
  BOOST_TEST(a.ratios.memory == b.ratios.memory);
  BOOST_TEST(a.ratios.exposed_transfer == b.ratios.exposed_transfer);
  BOOST_TEST(a.ratios.idle == b.ratios.idle);
  BOOST_TEST(a.ratios.idle_host == b.ratios.idle_host);
  BOOST_TEST(a.ratios.idle_gap == b.ratios.idle_gap);
  BOOST_TEST(a.ratios.overlap.value_or(-1) == b.ratios.overlap.value_or(-1));
  BOOST_TEST(a.split.compute_ms == b.split.compute_ms);
  BOOST_TEST(a.split.exposed_copy_out_ms == b.split.exposed_copy_out_ms);
  BOOST_TEST(a.split.exposed_copy_in_ms == b.split.exposed_copy_in_ms);
  BOOST_TEST(a.split.allocation_ms == b.split.allocation_ms);
  BOOST_TEST(a.split.idle_ms == b.split.idle_ms);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(analysis)

BOOST_AUTO_TEST_CASE(a_profile_without_time_is_refused) {
  BOOST_CHECK_THROW(analyze(Profile{}), std::invalid_argument);
  BOOST_CHECK_THROW(analyze(Builder().step(5, 5).profile), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(two_streams_fully_busy_are_100_percent) {
  Builder b;
  b.step(100, 200);
  b.kernel(50, 250, 0, 1);
  b.kernel(100, 200, 0, 2);
  b.work(Work::device_to_host, 90, 210, 0, 3);
  b.work(Work::host_to_device, 90, 210, 0, 4);
  const Analysis a = analyze(b.profile);
  BOOST_TEST(a.ratios.compute == 1);
  BOOST_TEST(a.ratios.memory == 1);
  BOOST_TEST(a.ratios.overlap.value() == 1);
  BOOST_TEST(a.ratios.exposed_transfer == 0);
  BOOST_TEST(a.ratios.idle == 0);
  BOOST_TEST(!a.ratios.communication.has_value());
}

BOOST_AUTO_TEST_CASE(every_ratio_and_part_equals_counting_nanoseconds) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const Profile profile = random_profile(random, 60);
    const EveryNanosecond expected(profile);
    const Analysis a = analyze(profile);
    const Ratios& r = a.ratios;
    BOOST_TEST_CONTEXT("round " << round) {
      const auto equal = [](double value, double reference) {
        BOOST_TEST(value == reference, boost::test_tools::tolerance(1e-12));
      };
      equal(r.compute, expected.share("kernel"));
      equal(r.memory, expected.share("copy"));
      equal(r.idle_host, expected.share("idle host"));
      equal(r.idle_gap, expected.share("idle gap"));
      equal(r.exposed_transfer, expected.share("out") + expected.share("in"));
      const double copy = expected.of("copy", 1);
      BOOST_TEST(r.overlap.has_value() == (copy > 0));
      if (r.overlap) equal(*r.overlap, expected.of("overlap", copy));
      equal(a.split.step_ms, expected.per_step_ms("step"));
      equal(a.split.compute_ms, expected.per_step_ms("compute"));
      equal(a.split.recompute_ms, expected.per_step_ms("recompute"));
      equal(a.split.optimizer_ms, expected.per_step_ms("optimizer"));
      equal(a.split.exposed_copy_out_ms, expected.per_step_ms("out"));
      equal(a.split.exposed_copy_in_ms, expected.per_step_ms("in"));
      equal(a.split.allocation_ms, expected.per_step_ms("allocation"));
      equal(a.split.idle_ms, expected.per_step_ms("idle"));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_partitions_sum_to_the_whole) {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    const Analysis a = analyze(random_profile(random, 1'000'000));
    const Ratios& r = a.ratios;
    const StepSplit& s = a.split;
    BOOST_TEST(r.compute + r.exposed_transfer + r.idle == 1, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(r.idle_host + r.idle_gap == r.idle, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(s.compute_ms + s.recompute_ms + s.optimizer_ms + s.exposed_copy_out_ms + s.exposed_copy_in_ms +
                       s.allocation_ms + s.idle_ms ==
                   s.step_ms,
               boost::test_tools::tolerance(1e-12));
    BOOST_TEST(s.exposed_copy_out_ms + s.exposed_copy_in_ms == r.exposed_transfer * s.step_ms,
               boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(waits_overhead_and_calls_that_start_nothing_change_no_number) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const Profile profile = random_profile(random, 60);
    Profile noisy = profile;
    add_noise(noisy);
    check_equal(analyze(profile), analyze(noisy));
  }
}

BOOST_AUTO_TEST_CASE(idle_time_is_the_hosts_until_it_has_issued_what_runs_next) {
  Builder b;
  b.step(0, 100);
  b.kernel(10, 20).correlation = 1;  // gap [0, 10): its call returned at 4
  b.call("cudaLaunchKernel", 1, 4, 1);
  b.kernel(40, 50).correlation = 2;  // gap [20, 40): issued long before
  b.call("cudaLaunchKernel", 5, 8, 2);
  b.kernel(60, 70).correlation = 3;  // gap [50, 60): its call is not over when it begins
  b.call("cudaLaunchKernel", 52, 64, 3);
  b.kernel(80, 90).correlation = 4;  // gap [70, 80): no record of its call; gap [90, 100): nothing comes
  const Ratios r = analyze(b.profile).ratios;
  BOOST_TEST(r.idle == 0.6);
  BOOST_TEST(r.idle_host == 0.14);
  BOOST_TEST(r.idle_gap == 0.46);
}

BOOST_AUTO_TEST_CASE(a_copy_that_its_call_waits_for_was_issued_when_the_call_began) {
  for (const Work kind : {Work::device_to_host, Work::kernel}) {
    Builder b;
    b.step(0, 100);
    b.kernel(0, 20);
    b.work(kind, 40, 100).correlation = 1;
    b.call("cudaMemcpy", 5, 100, 1);
    BOOST_TEST(analyze(b.profile).ratios.idle_host == (kind == Work::kernel ? 0.2 : 0));
  }
}

BOOST_AUTO_TEST_CASE(of_works_that_begin_together_the_first_issued_ends_the_waiting) {
  Builder b;
  b.step(0, 10);
  b.kernel(8, 10, 0, 1).correlation = 1;
  b.kernel(8, 10, 0, 2).correlation = 2;
  b.call("cudaLaunchKernel", 5, 6, 1);
  b.call("cudaLaunchKernel", 2, 3, 2);
  BOOST_TEST(analyze(b.profile).ratios.idle_host == 0.3);
}

BOOST_AUTO_TEST_CASE(a_call_that_was_dropped_blames_nobody) {
  Builder b;
  b.step(0, 10);
  b.kernel(8, 10).correlation = 1;
  b.call("cudaLaunchKernel", 5, 6, 1);
  BOOST_TEST(analyze(b.profile).ratios.idle_host == 0.6);
  b.profile.host.clear();
  BOOST_TEST(analyze(b.profile).ratios.idle_host == 0);
  BOOST_TEST(analyze(b.profile).ratios.idle_gap == 0.8);
}

BOOST_AUTO_TEST_CASE(the_split_takes_the_first_of_what_happens_at_once) {
  Builder b;
  b.step(0, 8'000'000);
  const auto forward = b.range(Phase::forward, 0, 1), recompute = b.range(Phase::recompute, 0, 1),
             optimizer = b.range(Phase::optimizer, 0, 1);
  const auto ms = [](int i) { return static_cast<Nanoseconds>(i) * 1'000'000; };
  b.call("cudaMalloc_v3020", 0, ms(7));  // in all but the last millisecond
  b.work(Work::host_to_device, 0, ms(6));
  b.work(Work::device_to_host, 0, ms(5));
  b.kernel(0, ms(3), forward, 1);
  b.kernel(0, ms(2), recompute, 2);
  b.kernel(0, ms(1), optimizer, 3);
  b.work(Work::memset, ms(3), ms(4), optimizer);
  const StepSplit s = analyze(b.profile).split;
  BOOST_TEST(s.step_ms == 8);
  BOOST_TEST(s.optimizer_ms == 2);
  BOOST_TEST(s.recompute_ms == 1);
  BOOST_TEST(s.compute_ms == 1);
  BOOST_TEST(s.exposed_copy_out_ms == 1);
  BOOST_TEST(s.exposed_copy_in_ms == 1);
  BOOST_TEST(s.allocation_ms == 1);
  BOOST_TEST(s.idle_ms == 1);
}

BOOST_AUTO_TEST_CASE(a_forward_inside_of_a_recompute_is_recompute) {
  Builder b;
  b.step(0, 1'000'000);
  const auto outer = b.range(Phase::recompute, 0, 9), block = b.range(Phase::forward, 1, 8, outer),
             inner = b.range(Phase::none, 2, 3, block);
  b.kernel(0, 250'000, inner);
  BOOST_TEST(analyze(b.profile).split.recompute_ms == 0.25);
}

BOOST_AUTO_TEST_CASE(a_range_inside_of_itself_is_survived) {
  Builder b;
  b.step(0, 1'000'000);
  const auto range = b.range(Phase::forward, 0, 9, 1);
  b.kernel(0, 250'000, range);
  BOOST_TEST(analyze(b.profile).split.compute_ms == 0.25);
}

BOOST_AUTO_TEST_CASE(every_call_that_allocates_or_frees_is_allocation) {
  for (const char* name : {"cudaMalloc", "cudaFree", "cudaMallocHost", "cudaFreeHost", "cudaHostAlloc",
                           "cudaMallocAsync_v11020", "cudaHostRegister", "cudaHostUnregister"}) {
    Builder b;
    b.step(0, 1'000'000);
    b.call(name, 0, 500'000);
    BOOST_TEST_CONTEXT(name) BOOST_TEST(analyze(b.profile).split.allocation_ms == 0.5);
  }
}

BOOST_AUTO_TEST_CASE(means_are_over_steps_and_what_lies_between_them_is_nobodys) {
  Builder b;
  b.step(0, 1'000'000).step(2'000'000, 5'000'000);
  b.kernel(500'000, 3'000'000);
  const Analysis a = analyze(b.profile);
  BOOST_TEST(a.steps == 2);
  BOOST_TEST(a.split.step_ms == 2);
  BOOST_TEST(a.split.compute_ms == 0.75);
  BOOST_TEST(a.ratios.compute == 0.375);
}

BOOST_AUTO_TEST_CASE(any_loss_makes_a_profile_incomplete) {
  BOOST_TEST(Completeness{.records = 5}.complete());
  BOOST_TEST(!Completeness{.dropped = 1}.complete());
  BOOST_TEST(!Completeness{.zero_timestamps = 1}.complete());
  BOOST_TEST(!Completeness{.out_of_range = 1}.complete());
  BOOST_TEST(!Completeness{.unattributed = 1}.complete());
}

BOOST_AUTO_TEST_SUITE_END()
