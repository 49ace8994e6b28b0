// No strategy always runs first: over as many repeats as there are strategies each has had every place once.
#include <set>

#include "decision/strategy_benchmark.h"
#include "decision/table.h"
#include "test/fixture.h"

using namespace spillway::decision;

BOOST_AUTO_TEST_SUITE(order_of_measuring)

BOOST_AUTO_TEST_CASE(every_strategy_has_every_place_once) {
  for (int n = 1; n <= 6; ++n)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto order = balanced_order(n, n, seed);
      for (int place = 0; place < n; ++place) {
        std::set<int> at_place;
        for (const auto& repeat : order) at_place.insert(repeat[static_cast<std::size_t>(place)]);
        BOOST_TEST(at_place.size() == static_cast<std::size_t>(n));
      }
    }
}

BOOST_AUTO_TEST_CASE(the_order_is_the_seeds_and_differs_between_seeds) {
  BOOST_TEST((balanced_order(4, 3, 42) == balanced_order(4, 3, 42)));
  std::set<std::vector<int>> firsts;
  for (std::uint64_t seed = 0; seed < 50; ++seed) firsts.insert(balanced_order(4, 1, seed)[0]);
  BOOST_TEST(firsts.size() > 10U);
}

BOOST_AUTO_TEST_CASE(a_table_aligns_figures_to_the_right) {
  Table table({"name", "peak MiB"});
  table.row({"baseline", "1.0"});
  table.row({"x", "123.45"});
  BOOST_TEST(table.text() ==
             "            peak\n"
             "name         MiB\n"
             "----------------\n"
             "baseline     1.0\n"
             "x         123.45\n");
}

BOOST_AUTO_TEST_SUITE_END()
