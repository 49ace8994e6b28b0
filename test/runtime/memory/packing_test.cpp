// Packings against every order of placement for a few buffers, against rectangles that were cut into buffers, and the
// validator against placements that are wrong.
#include "runtime/memory/packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "runtime/error.h"
#include "runtime/memory/packing_search.h"
#include "test/fixture.h"

using namespace spillway;
using namespace spillway::memory;

namespace {

std::vector<Buffer> random_buffers(std::mt19937_64& random, int count, std::int64_t times, std::int64_t sizes) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; ++i) {
    const auto lower = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(times));
    const auto life = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(times));
    buffers.push_back(
        {lower, lower + life, 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(sizes))});
  }
  return buffers;
}

// A rectangle of [lower, upper) by `height`, cut at random into buffers: they have a packing of that height without any
// gap. In no order, and none of them says where it was.
void cut(std::mt19937_64& random, std::int64_t lower, std::int64_t upper, std::int64_t height, int cuts,
         std::vector<Buffer>& buffers) {
  const auto within = [&](std::int64_t n) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n - 1));
  };
  const bool across = random() % 2 == 0;
  if (cuts == 0 || (across ? upper - lower : height) < 2) {
    buffers.insert(buffers.begin() + static_cast<std::ptrdiff_t>(random() % (buffers.size() + 1)),
                   Buffer{lower, upper, height});
  } else if (across) {
    const std::int64_t at = lower + within(upper - lower);
    cut(random, lower, at, height, cuts - 1, buffers);
    cut(random, at, upper, height, cuts - 1, buffers);
  } else {
    const std::int64_t part = within(height);
    cut(random, lower, upper, part, cuts - 1, buffers);
    cut(random, lower, upper, height - part, cuts - 1, buffers);
  }
}

// No packing of these is as low as what lives at once.
const std::vector<std::vector<Buffer>> kAboveTheirLiveBound = {
    {{0, 1, 4}, {0, 2, 3}, {1, 3, 2}, {1, 5, 2}, {2, 3, 1}, {2, 5, 1}, {2, 3, 1}, {3, 6, 4}, {5, 6, 3}},
    {{0, 3, 3}, {0, 4, 3}, {3, 6, 2}, {3, 5, 1}, {4, 6, 2}, {4, 5, 1}, {5, 7, 2}, {6, 7, 3}, {6, 7, 1}},
    {{0, 3, 2}, {0, 2, 2}, {0, 1, 2}, {1, 3, 1}, {1, 4, 1}, {2, 4, 1}, {2, 3, 1}, {3, 5, 4}, {4, 5, 2}}};

// Some optimal packing places each buffer as low as it goes, in some order; so the best over all orders is optimal.
std::int64_t optimum(const std::vector<Buffer>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  do {
    std::vector<std::int64_t> offsets(buffers.size(), -1);
    std::int64_t height = 0;
    for (const std::size_t i : order) {
      std::int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t j = 0; j < buffers.size(); ++j)
          if (offsets[j] >= 0 && buffers[i].lower < buffers[j].upper && buffers[j].lower < buffers[i].upper &&
              offset < offsets[j] + buffers[j].size && offsets[j] < offset + buffers[i].size) {
            offset = offsets[j] + buffers[j].size;
            moved = true;
          }
      }
      offsets[i] = offset;
      height = std::max(height, offset + buffers[i].size);
    }
    best = std::min(best, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(packing)

BOOST_AUTO_TEST_CASE(a_few_buffers_are_packed_as_low_as_any_order_of_placement_packs_them) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 120; ++i) BOOST_TEST_CONTEXT("case " << i) {
      const auto buffers = random_buffers(random, i % 4 == 0 ? 8 : 1 + i % 7, 7, 4);
      const Packing p = pack(buffers);
      BOOST_REQUIRE_EQUAL(p.height, optimum(buffers));
      BOOST_REQUIRE(p.optimal());  // and it knows
    }
}

BOOST_AUTO_TEST_CASE(a_packing_above_the_live_bound_is_proved_to_be_the_lowest) {
  for (const auto& buffers : kAboveTheirLiveBound) {
    const Packing p = pack(buffers);
    BOOST_TEST(p.height == optimum(buffers));
    BOOST_TEST(p.height > live_bound(buffers));
    BOOST_TEST(p.optimal());
  }
}

BOOST_AUTO_TEST_CASE(the_search_decides_every_height_of_a_few_buffers_with_every_priority) {
  std::mt19937_64 random(4);
  std::vector<std::vector<Buffer>> problems = kAboveTheirLiveBound;
  for (int i = 0; i < 40; ++i) problems.push_back(random_buffers(random, 7, 5, 6));
  for (const auto& buffers : problems) {
    const std::int64_t lowest = optimum(buffers);
    PackingSearch search(buffers);
    for (const Priority priority : kPriorities)
      for (std::int64_t height = lowest - 2; height < lowest + 3; ++height)
        BOOST_REQUIRE(search.run(height, priority, 100'000'000) ==
                      (height < lowest ? PackingSearch::Outcome::impossible : PackingSearch::Outcome::found));
  }
}

BOOST_AUTO_TEST_CASE(a_packing_that_exists_is_never_called_impossible) {
  std::mt19937_64 random(5);
  int found = 0;
  for (int i = 0; i < 300; ++i) BOOST_TEST_CONTEXT("case " << i) {
      std::vector<Buffer> buffers;
      cut(random, 0, 40, 60, 5, buffers);
      PackingSearch search(buffers);
      for (const Priority priority : kPriorities) {
        const auto outcome = search.run(60, priority, 300'000);
        BOOST_REQUIRE(outcome != PackingSearch::Outcome::impossible);
        if (outcome != PackingSearch::Outcome::found) continue;
        BOOST_REQUIRE_NO_THROW(validate(buffers, {search.offsets(), 60, 60}));
        ++found;
      }
    }
  BOOST_TEST(found > 600);
}

BOOST_AUTO_TEST_CASE(a_rectangle_that_was_cut_is_put_together_again) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 100; ++i) BOOST_TEST_CONTEXT("case " << i) {
      std::vector<Buffer> buffers;
      cut(random, 0, 40, 60, 4, buffers);
      BOOST_REQUIRE_EQUAL(pack(buffers).height, 60);
    }
}

BOOST_AUTO_TEST_CASE(many_buffers_are_packed_soundly_and_the_same_every_time) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10; ++i) {
    const auto buffers = random_buffers(random, 300, 100, 1000);
    const Packing first = pack(buffers, {5'000'000, {}, {}}), again = pack(buffers, {5'000'000, {}, {}});
    BOOST_CHECK_NO_THROW(validate(buffers, first));
    BOOST_TEST(first.offsets == again.offsets);
    BOOST_TEST(first.bound >= live_bound(buffers));
    BOOST_TEST(first.height >= first.bound);
  }
}

BOOST_AUTO_TEST_CASE(buffers_that_follow_one_another_share_one_place) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < 50; ++i) buffers.push_back({i, i + 1, 512});
  BOOST_TEST(pack(buffers).height == 512);
  BOOST_TEST(pack({}).height == std::int64_t{0});
}

BOOST_AUTO_TEST_CASE(a_search_that_is_stopped_still_gives_a_placement) {
  std::mt19937_64 random(3);
  const auto buffers = random_buffers(random, 200, 50, 1000);
  const Packing p = pack(buffers, {1'000'000'000, {}, [] { return true; }});
  BOOST_CHECK_NO_THROW(validate(buffers, p));
}

BOOST_AUTO_TEST_CASE(a_wrong_placement_is_found) {
  const std::vector<Buffer> buffers = {{0, 2, 10}, {1, 3, 10}, {2, 4, 5}};
  BOOST_CHECK_NO_THROW(validate(buffers, {{0, 10, 0}, 20, 20}));
  BOOST_CHECK_THROW(validate(buffers, {{0, 9, 0}, 20, 20}), std::logic_error);   // overlap
  BOOST_CHECK_THROW(validate(buffers, {{0, 0, 10}, 20, 20}), std::logic_error);  // at one place
  BOOST_CHECK_THROW(validate(buffers, {{0, 11, 0}, 20, 20}), std::logic_error);  // out of the arena
  BOOST_CHECK_THROW(validate(buffers, {{-1, 10, 0}, 20, 20}), std::logic_error);
  BOOST_CHECK_THROW(validate(buffers, {{0, 10}, 20, 20}), std::logic_error);
}

BOOST_AUTO_TEST_CASE(a_buffer_without_size_or_life_is_refused) {
  for (const Buffer& bad : {Buffer{0, 1, 0}, Buffer{0, 1, -5}, Buffer{1, 1, 5}, Buffer{2, 1, 5}})
    BOOST_CHECK_THROW(pack({bad}), Error);
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  BOOST_CHECK_THROW(pack({{0, 1, kHuge}, {2, 3, kHuge}}), Error);
  BOOST_CHECK_THROW(pack({{0, 1, kHuge}}), Error);
}

BOOST_AUTO_TEST_SUITE_END()
