// The rules of experiment 76 on the published run, and against a second reading of PROTOCOL.md written as plainly as
// can be (brute force), over random sets of candidates.
#include "decision/rules.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "test/fixture.h"

using namespace spillway::decision;

namespace {

std::vector<Candidate> published() {
  return {{"baseline", "ok", 9782.74, 2.097, 12.356503, {}},
          {"checkpoint", "ok", 9450.76, 1.687, 12.356503, {}},
          {"offload", "ok", 9448.33, 0.528, 12.356503, {}},
          {"hybrid", "ok", 9454.64, 1.305, 12.356503, {}}};
}

// ---- the protocol read a second time, without sharing a line with rules.cpp
// ------------------------------------------
struct Naive {
  int oom = 0, invalid = 0, measured = 0, quality_failed = 0;
  std::vector<std::string> feasible;
  std::string best;
  double saving = 0;
  double ratio = std::numeric_limits<double>::quiet_NaN();  // NaN: null
  std::string decision, reason;
};

bool number(const std::optional<double>& v) {
  return v.has_value() && !std::isnan(*v) && !std::isinf(*v);
}

Naive naive(const std::vector<Candidate>& all, const Budget& b, const Thresholds& t) {
  Naive n;
  std::vector<Candidate> good;
  for (Candidate c : all) {
    if (!c.eval_loss.has_value()) c.eval_loss = c.val_loss;
    if (c.status == "oom") {
      n.oom++;
    } else if (c.status == "invalid" || !number(c.peak_memory_mb) || !number(c.samples_per_s) || !number(c.eval_loss)) {
      n.invalid++;
    } else {
      good.push_back(c);
    }
  }
  n.measured = static_cast<int>(all.size()) - n.oom - n.invalid;
  std::vector<Candidate> fit;
  for (const Candidate& c : good) {
    if (b.max_val_loss && *c.eval_loss > *b.max_val_loss) {
      n.quality_failed++;
      continue;
    }
    if (b.memory_cap_mb && *c.peak_memory_mb > *b.memory_cap_mb) continue;
    if (b.min_samples_per_s && *c.samples_per_s < *b.min_samples_per_s) continue;
    fit.push_back(c);
  }
  // Selection sort by the three keys, earlier candidates first among equals.
  while (!fit.empty()) {
    std::size_t first = 0;
    for (std::size_t i = 1; i < fit.size(); ++i) {
      const Candidate &a = fit[i], &z = fit[first];
      const bool before = *a.peak_memory_mb < *z.peak_memory_mb ||
                          (*a.peak_memory_mb == *z.peak_memory_mb &&
                           (*a.samples_per_s > *z.samples_per_s ||
                            (*a.samples_per_s == *z.samples_per_s && *a.eval_loss < *z.eval_loss)));
      if (before) first = i;
    }
    if (n.feasible.empty()) {
      n.best = fit[first].name;
      for (const Candidate& c : good)
        if (c.name == "baseline") {
          n.saving = std::floor((*c.peak_memory_mb - *fit[first].peak_memory_mb) * 1e6 + 0.5) / 1e6;
          if (*c.samples_per_s != 0)
            n.ratio = std::floor(*fit[first].samples_per_s / *c.samples_per_s * 1e6 + 0.5) / 1e6;
          break;
        }
    }
    n.feasible.push_back(fit[first].name);
    fit.erase(fit.begin() + static_cast<std::ptrdiff_t>(first));
  }
  const bool slow = !std::isnan(n.ratio) && n.ratio < t.throughput_ratio;
  if (n.feasible.empty()) {
    n.decision = "reject", n.reason = "no_strategy_meets_budget_and_quality";
  } else if (n.best != "baseline" && !(n.saving < t.saving_mb) && !slow) {
    n.decision = "accept", n.reason = "strategy_is_best_feasible_option";
  } else if (n.quality_failed > 0) {
    n.decision = "tune", n.reason = "strategy_needs_quality_recovery";
  } else if (n.saving < t.saving_mb) {
    n.decision = "tune", n.reason = "memory_saving_below_meaningful_threshold";
  } else if (slow) {
    n.decision = "tune", n.reason = "throughput_loss_exceeds_budget";
  } else {
    n.decision = "tune", n.reason = "baseline_still_best_under_current_budget";
  }
  return n;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(the_rules_of_76)

BOOST_AUTO_TEST_CASE(the_published_run_gives_its_published_summary_and_decision) {
  const Summary s = summarize(published(), {11200.0, 1.0, 12.603633});
  BOOST_TEST(s.feasible_names == (std::vector<std::string>{"checkpoint", "hybrid", "baseline"}),
             boost::test_tools::per_element());
  BOOST_TEST(*s.best_candidate == "checkpoint");
  BOOST_TEST(s.memory_saving_mb == 331.98);
  BOOST_TEST(*s.throughput_ratio == 0.804483);
  const Decision d = decide(s, {}, Wording::benchmark_76);
  BOOST_TEST(d.decision == "tune");
  BOOST_TEST(d.reason == "memory_saving_below_meaningful_threshold");
  BOOST_TEST(d.next_action == "test_pressure_or_offload_scope");
}

BOOST_AUTO_TEST_CASE(the_default_floor_is_102_percent_of_the_baselines_evaluation_loss) {
  BOOST_TEST(*default_quality_floor(published()) == 12.603633);
  BOOST_TEST(!default_quality_floor({{"checkpoint", "ok", 1.0, 1.0, 1.0, {}}}).has_value());
  BOOST_TEST(!default_quality_floor({{"baseline", "oom", {}, {}, {}, {}}}).has_value());
}

BOOST_AUTO_TEST_CASE(random_candidates_are_judged_as_a_brute_force_reading_judges_them) {
  std::mt19937 random(76);
  const auto pick = [&](auto... values) {
    const std::array<double, sizeof...(values)> all{static_cast<double>(values)...};
    return all[random() % all.size()];
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto field = [&](auto... values) -> std::optional<double> {
    switch (random() % 14) {
      case 0:
        return std::nullopt;
      case 1:
        return pick(nan, inf, -inf);
      default:
        return pick(values...);  // few values: ties happen
    }
  };
  std::map<std::string, int> seen;
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<Candidate> all;
    const char* names[] = {"baseline", "checkpoint", "offload", "hybrid", "offload-pageable"};
    const std::size_t count = random() % 6;
    for (std::size_t i = 0; i < count; ++i) {
      const char* status = random() % 8 == 0 ? "oom" : random() % 12 == 0 ? "invalid" : "ok";
      all.push_back({names[random() % 5], status, field(8000, 9000, 9000.5, 9512, 10000), field(0, 0.5, 0.7, 1, 2),
                     field(1, 1.01, 1.02, 1.5), field(1, 2)});
    }
    Budget b;
    if (random() % 5) b.memory_cap_mb = pick(8500, 9000, 9600, 20000);
    if (random() % 5) b.min_samples_per_s = pick(0, 0.5, 0.6, 1);
    if (random() % 5) b.max_val_loss = pick(0.5, 1.01, 1.2, 3);
    const Thresholds t{pick(0, 100, 512, 1000), pick(0.1, 0.5, 0.7, 1)};

    const Naive n = naive(all, b, t);
    const Summary s = summarize(all, b);
    const Decision d = decide(s, t, Wording::benchmark_76);
    BOOST_REQUIRE_EQUAL(s.candidate_count, static_cast<int>(all.size()));
    BOOST_REQUIRE_EQUAL(s.oom_count, n.oom);
    BOOST_REQUIRE_EQUAL(s.invalid_count, n.invalid);
    BOOST_REQUIRE_EQUAL(s.measured_count, n.measured);
    BOOST_REQUIRE_EQUAL(s.quality_failed_count, n.quality_failed);
    BOOST_REQUIRE(s.feasible_names == n.feasible);
    BOOST_REQUIRE_EQUAL(s.best_candidate.value_or(""), n.best);
    BOOST_REQUIRE_EQUAL(s.memory_saving_mb, n.saving);
    BOOST_REQUIRE_EQUAL(s.throughput_ratio.has_value(), !std::isnan(n.ratio));
    if (s.throughput_ratio) BOOST_REQUIRE_EQUAL(*s.throughput_ratio, n.ratio);
    BOOST_REQUIRE_EQUAL(d.decision, n.decision);
    BOOST_REQUIRE_EQUAL(d.reason, n.reason);
    ++seen[d.reason];
  }
  BOOST_TEST(seen.size() == 6U);  // every rule was reached
}

BOOST_AUTO_TEST_CASE(the_spread_of_step_times_is_median_absolute_deviation_over_median) {
  BOOST_TEST(median({3, 1, 2}) == 2);
  BOOST_TEST(median({4, 1, 3, 2}) == 2.5);
  BOOST_TEST(median_absolute_deviation({1, 1, 2, 2, 4, 6, 9}) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
