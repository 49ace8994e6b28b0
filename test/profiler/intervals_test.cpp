// Sets of intervals against sets of points: on a small line of integers a bitmap says what every operation must give.
#include "profiler/intervals.h"

#include <bitset>
#include <random>

#include "test/fixture.h"

using namespace spillway::profiler;

namespace {

constexpr int kLine = 24;
using Points = std::bitset<kLine>;

Points points_of(const std::vector<Interval>& intervals) {
  Points points;
  for (const Interval& i : intervals)
    for (Nanoseconds at = i.begin; at < i.end; ++at) points.set(static_cast<std::size_t>(at));
  return points;
}

std::vector<Interval> random_intervals(std::mt19937& random) {
  std::vector<Interval> intervals(random() % 7);
  for (Interval& i : intervals) {
    i.begin = static_cast<Nanoseconds>(random() % (kLine + 1));
    i.end = static_cast<Nanoseconds>(random() % (kLine + 1));  // before begin, often: empty
  }
  return intervals;
}

// The right points, and in the one form that such a set has.
void check(const IntervalSet& set, const Points& expected) {
  const std::vector<Interval>& list = set.intervals();
  BOOST_TEST(points_of(list) == expected);
  BOOST_TEST(set.length() == static_cast<Nanoseconds>(expected.count()));
  for (std::size_t i = 0; i < list.size(); ++i) {
    BOOST_TEST(list[i].begin < list[i].end);
    if (i > 0) BOOST_TEST(list[i - 1].end < list[i].begin);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(interval_sets)

BOOST_AUTO_TEST_CASE(every_operation_is_the_one_on_points) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::vector<Interval> a = random_intervals(random), b = random_intervals(random);
    const Points pa = points_of(a), pb = points_of(b);
    const IntervalSet sa(a), sb(b);
    check(sa, pa);
    check(sa | sb, pa | pb);
    check(sa & sb, pa & pb);
    check(sa - sb, pa & ~pb);
    Interval window;
    window.begin = static_cast<Nanoseconds>(random() % (kLine + 1));
    window.end = static_cast<Nanoseconds>(random() % (kLine + 1));
    check(sa.clipped(window), pa & points_of({window}));
  }
}

BOOST_AUTO_TEST_CASE(lengths_obey_inclusion_and_exclusion) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const IntervalSet a(random_intervals(random)), b(random_intervals(random));
    BOOST_TEST((a | b).length() + (a & b).length() == a.length() + b.length());
    BOOST_TEST((a - b).length() + (a & b).length() == a.length());
  }
}

BOOST_AUTO_TEST_CASE(half_open_intervals_that_touch_are_one_and_share_nothing) {
  const IntervalSet touching({{5, 9}, {1, 5}});
  BOOST_REQUIRE(touching.intervals().size() == 1U);
  BOOST_TEST(touching.intervals()[0].begin == 1);
  BOOST_TEST(touching.intervals()[0].end == 9);
  BOOST_TEST((IntervalSet({{1, 5}}) & IntervalSet({{5, 9}})).length() == 0);
}

BOOST_AUTO_TEST_CASE(hours_of_nanoseconds_do_not_overflow) {
  const Nanoseconds day = 86'400'000'000'000;
  BOOST_TEST(IntervalSet({{-day, day}, {2 * day, 400 * day}}).length() == 400 * day);
}

BOOST_AUTO_TEST_SUITE_END()
