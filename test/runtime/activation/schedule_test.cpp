// Schedules of named and random plans are safe, and the checker finds every fault that is planted in one.
#include "runtime/activation/schedule.h"

#include <algorithm>
#include <map>

#include "runtime/activation/schedule_check.h"
#include "test/fixture.h"
#include "test/runtime/activation/synthetic_layer.h"

using namespace spillway;
using namespace spillway::activation;
using Kind = Action::Kind;

namespace {

// A second, slower proof that a schedule is safe: runs it under many random speeds of its streams, keeping for every
// tensor who holds its memory and whether its bytes are whole, and says whether any run goes wrong. It finds no fault
// where there is none; with enough runs it finds nearly every real one.
bool goes_wrong_at_random_speeds(const Schedule& schedule, const LayerSpec& spec, int runs, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const int n = static_cast<int>(schedule.actions.size());
  for (int run = 0; run < runs; ++run) {
    // Duration of each action at random; start = max(stream free, events waited for).
    std::vector<double> begin(static_cast<std::size_t>(n)), end(static_cast<std::size_t>(n));
    std::vector<double> event(static_cast<std::size_t>(schedule.events), -1);
    double free_at[kScheduleStreams] = {};
    const double slow = run % 3 == 0 ? 100 : 1;
    for (int i = 0; i < n; ++i) {
      const Action& a = schedule.actions[static_cast<std::size_t>(i)];
      double& stream = free_at[static_cast<std::size_t>(a.stream)];
      for (const EventId e : a.waits) stream = std::max(stream, event[static_cast<std::size_t>(e)]);
      const bool instant = a.kind == Kind::allocate || a.kind == Kind::release;
      const bool copies = a.stream != ScheduleStream::compute;
      const double lasts = instant ? 0
                                   : (copies         ? slow
                                      : run % 3 == 1 ? 100
                                                     : 1) *
                                         (1 + static_cast<double>(random() % 100));
      begin[static_cast<std::size_t>(i)] = stream;
      stream += lasts;
      end[static_cast<std::size_t>(i)] = stream;
      if (a.records >= 0) event[static_cast<std::size_t>(a.records)] = stream;
    }
    // Intervals in which memory is written or read, per tensor instance; and when the memory may have a new owner.
    struct Use {
      double begin, end;
      bool write;
    };
    std::map<std::pair<int, int>, std::vector<Use>> uses;
    std::map<std::pair<int, int>, double> allocated;
    std::map<std::pair<int, int>, double> copied_out;
    bool wrong = false;
    const auto use = [&](int i, int l, int t, bool write) {
      if (!allocated.count({l, t})) return void(wrong = true);
      const Use u{begin[static_cast<std::size_t>(i)], end[static_cast<std::size_t>(i)], write};
      if (u.begin < allocated[{l, t}]) wrong = true;
      for (const Use& other : uses[{l, t}])
        if ((write || other.write) && u.begin < other.end && other.begin < u.end) wrong = true;
      bool written = write;
      for (const Use& other : uses[{l, t}]) written |= other.write && other.end <= u.begin;
      if (!written) wrong = true;
      uses[{l, t}].push_back(u);
    };
    for (int i = 0; i < n; ++i) {
      const Action& a = schedule.actions[static_cast<std::size_t>(i)];
      const std::pair<int, int> w{a.layer, a.tensor};
      switch (a.kind) {
        case Kind::allocate:
          allocated[w] = begin[static_cast<std::size_t>(i)];
          uses[w].clear();
          break;
        case Kind::release:
          for (const Use& u : uses[w])
            if (u.end > begin[static_cast<std::size_t>(i)]) wrong = true;
          allocated.erase(w);
          break;
        case Kind::embed:
          use(i, 0, 0, true);
          break;
        case Kind::forward:
        case Kind::recompute: {
          const ForwardOperator& op = spec.forward[static_cast<std::size_t>(a.op)];
          for (const int t : op.reads) use(i, a.layer, t, false);
          for (const int t : op.writes) use(i, a.layer, t, true);
          if (op.writes_next_input) use(i, a.layer + 1, 0, true);
          break;
        }
        case Kind::backward:
          for (const int t : spec.backward[static_cast<std::size_t>(a.op)].reads) use(i, a.layer, t, false);
          break;
        case Kind::head:
          use(i, schedule.layers, 0, false);
          break;
        case Kind::offload:
          use(i, a.layer, a.tensor, false);
          copied_out[w] = end[static_cast<std::size_t>(i)];
          break;
        case Kind::prefetch:
          use(i, a.layer, a.tensor, true);
          if (!copied_out.count(w) || copied_out[w] > begin[static_cast<std::size_t>(i)]) wrong = true;
          break;
        default:
          break;
      }
    }
    if (wrong) return true;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(schedules)

BOOST_AUTO_TEST_CASE(named_and_random_plans_are_safe_by_both_proofs) {
  const LayerSpec spec = test::synthetic_spec();
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int layers = 1 + static_cast<int>(random() % 6);
    const Plan plan = trial < 5 ? make_plan(strategy_names()[static_cast<std::size_t>(trial)], spec, layers)
                                : test::random_plan(random, spec, layers);
    const Schedule schedule = training_schedule(plan, spec);
    const ScheduleReport report = check_schedule(schedule, spec);
    BOOST_TEST_CONTEXT("trial " << trial << (report.ok() ? "" : ": " + report.problems[0])) BOOST_REQUIRE(report.ok());
    BOOST_REQUIRE(!goes_wrong_at_random_speeds(schedule, spec, 9, random()));
    BOOST_REQUIRE_EQUAL(report.recompute_flops, totals(plan, spec).recompute_flops);
    BOOST_REQUIRE_EQUAL(report.offload_bytes, report.prefetch_bytes);
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_saves_nothing) {
  const LayerSpec spec = test::synthetic_spec();
  const ScheduleReport report = check_schedule(evaluation_schedule(spec, 5), spec);
  BOOST_TEST(report.ok());
  BOOST_TEST(report.offload_bytes == 0);
  BOOST_TEST(report.peak_saved_bytes <= 5 * spec.tensors[0].bytes);
}

BOOST_AUTO_TEST_CASE(every_missing_wait_that_can_go_wrong_is_reported) {
  const LayerSpec spec = test::synthetic_spec();
  std::mt19937_64 random(11);
  int found = 0, redundant = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const Plan plan = trial < 5 ? make_plan(strategy_names()[static_cast<std::size_t>(trial)], spec, 4)
                                : test::random_plan(random, spec, 1 + static_cast<int>(random() % 5));
    const Schedule schedule = training_schedule(plan, spec);
    for (std::size_t i = 0; i < schedule.actions.size(); ++i)
      for (std::size_t w = 0; w < schedule.actions[i].waits.size(); ++w) {
        Schedule broken = schedule;
        broken.actions[i].waits.erase(broken.actions[i].waits.begin() + static_cast<std::ptrdiff_t>(w));
        const bool reported = !check_schedule(broken, spec).ok();
        const bool wrong = goes_wrong_at_random_speeds(broken, spec, 30, random());
        if (wrong) BOOST_REQUIRE(reported);  // what goes wrong in a run was reported without one
        found += reported;
        redundant += !reported;
      }
  }
  BOOST_TEST(found > 500);
  BOOST_TEST_MESSAGE(found << " missing waits reported, " << redundant << " were implied by others");
}

BOOST_AUTO_TEST_CASE(a_prefetch_that_skips_its_own_copy_out_is_reported) {
  const LayerSpec spec = test::synthetic_spec();
  Schedule schedule = training_schedule(make_plan("offload", spec, 3), spec);
  for (Action& a : schedule.actions)
    if (a.kind == Kind::release) a.waits.clear();  // without these nothing else orders the two copies
  for (Action& a : schedule.actions)
    if (a.kind == Kind::prefetch) a.waits.erase(a.waits.begin());
  const ScheduleReport report = check_schedule(schedule, spec);
  BOOST_TEST(std::any_of(report.problems.begin(), report.problems.end(), [](const std::string& p) {
    return p.find("its copy in of") != std::string::npos && p.find("not ordered behind") != std::string::npos;
  }));
}

BOOST_AUTO_TEST_CASE(every_dropped_or_doubled_action_is_reported) {
  const LayerSpec spec = test::synthetic_spec();
  for (const std::string& name : strategy_names()) {
    const Schedule schedule = training_schedule(make_plan(name, spec, 3), spec);
    for (std::size_t i = 0; i < schedule.actions.size(); ++i) {
      Schedule dropped = schedule, doubled = schedule;
      dropped.actions.erase(dropped.actions.begin() + static_cast<std::ptrdiff_t>(i));
      doubled.actions.insert(doubled.actions.begin() + static_cast<std::ptrdiff_t>(i), schedule.actions[i]);
      BOOST_TEST_CONTEXT(name << ": " << format_action(schedule.actions[i], spec)) {
        BOOST_TEST(!check_schedule(dropped, spec).ok());
        // Running an operator again on the same inputs is wasteful, not wrong.
        if (schedule.actions[i].kind != Kind::recompute) BOOST_TEST(!check_schedule(doubled, spec).ok());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(actions_read_as_lines) {
  const LayerSpec spec = test::synthetic_spec();
  BOOST_TEST(format_action({Kind::prefetch, 2, 3, -1, ScheduleStream::copy_in, {4, 5}, 6}, spec) ==
             "copy-in   prefetch       layer 2 c                      waits e4 e5 records e6");
  BOOST_TEST(format_action({Kind::optimizer}, spec) == "compute   optimizer");
}

BOOST_AUTO_TEST_SUITE_END()
