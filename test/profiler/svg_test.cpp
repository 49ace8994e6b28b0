// Charts: escaping, scales with ticks at round numbers, marks where their values are, names that lie on nothing.
#include "profiler/svg.h"

#include <cmath>
#include <random>

#include "profiler/label_placer.h"
#include "test/fixture.h"

using namespace spillway::profiler::svg;

BOOST_AUTO_TEST_SUITE(svg)

BOOST_AUTO_TEST_CASE(text_is_escaped_for_content_and_attributes) {
  BOOST_TEST(escape("<a href=\"x\">'&'</a>") == "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  BOOST_TEST(escape("Größe → 7\n") == "Größe → 7\n");
}

BOOST_AUTO_TEST_CASE(what_is_no_text_is_replaced) {
  const std::string r = "\xEF\xBF\xBD";
  BOOST_TEST(escape(std::string_view("a\0b", 3)) == "a" + r + "b");
  BOOST_TEST(escape("\xC0\xAF") == r + r);                  // overlong
  BOOST_TEST(escape("\xED\xA0\x80") == r + r + r);          // a surrogate
  BOOST_TEST(escape("\xF4\x90\x80\x80") == r + r + r + r);  // beyond U+10FFFF
  BOOST_TEST(escape("\xE2\x82") == r + r);                  // cut off
  BOOST_TEST(escape("\x80") == r);
}

BOOST_AUTO_TEST_CASE(ticks_are_round_within_the_scale_and_not_more_than_asked) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-6, 9), unit(-1, 1);
  for (int round = 0; round < 2000; ++round) {
    const double size = std::pow(10, exponent(random));
    const double low = unit(random) * size, high = low + (0.01 + std::abs(unit(random))) * size;
    const int most = 2 + round % 9;
    const std::vector<double> ticks = Scale::linear(low, high).ticks(most);
    BOOST_TEST_CONTEXT(low << " to " << high << ", at most " << most) {
      BOOST_REQUIRE(ticks.size() >= 1);
      BOOST_TEST(ticks.size() <= static_cast<std::size_t>(most));
      for (const double t : ticks) BOOST_TEST((t >= low - 1e-8 * size && t <= high + 1e-8 * size));
      if (ticks.size() < 2) continue;
      const double step = ticks[1] - ticks[0];
      const double mantissa = step / std::pow(10, std::floor(std::log10(step) + 1e-6));
      BOOST_TEST((std::abs(mantissa - 1) < 1e-6 || std::abs(mantissa - 2) < 1e-6 || std::abs(mantissa - 5) < 1e-6));
      for (const double t : ticks) BOOST_TEST(std::abs(t / step - std::round(t / step)) < 1e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(logarithmic_ticks_are_powers_of_ten) {
  BOOST_TEST(Scale::logarithmic(0.1, 1000).ticks(8) == (std::vector<double>{0.1, 1, 10, 100, 1000}),
             boost::test_tools::per_element());
  BOOST_TEST(Scale::logarithmic(1e-9, 1e9).ticks(6).size() <= 6u);
  BOOST_TEST(std::abs(Scale::logarithmic(1, 100).at(10) - 0.5) < 1e-12);
}

BOOST_AUTO_TEST_CASE(a_scale_without_length_is_refused) {
  BOOST_CHECK_THROW(Scale::linear(1, 1), std::invalid_argument);
  BOOST_CHECK_THROW(Scale::linear(0, INFINITY), std::invalid_argument);
  BOOST_CHECK_THROW(Scale::logarithmic(0, 1), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(tick_numbers_read_as_people_write_them) {
  BOOST_TEST(tick_text(0) == "0");
  BOOST_TEST(tick_text(0.25) == "0.25");
  BOOST_TEST(tick_text(500) == "500");
  BOOST_TEST(tick_text(12000) ==
             "12\xE2\x80\xAF"
             "000");
  BOOST_TEST(tick_text(-1000) ==
             "-1\xE2\x80\xAF"
             "000");
  BOOST_TEST(tick_text(2e6) == "2e+06");
}

BOOST_AUTO_TEST_CASE(marks_stand_where_their_values_are) {
  Plot plot("p", 200, Scale::linear(0, 50), Scale::linear(0, 10));
  plot.dot(25, 7.5, 3, "c", "<t>");
  plot.box(10, 2, 20, 4, "b", "");
  const std::string svg = plot.svg();
  BOOST_TEST(svg.find(R"(<circle class="c" cx="50%" cy="50" r="3">)") != std::string::npos);
  BOOST_TEST(svg.find(R"(<rect class="b" x="20%" y="120" width="20%" height="40"/>)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(placed_names_lie_on_no_dot_and_on_no_other_name) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int round = 0; round < 200; ++round) {
    constexpr double kHeight = 300, kWidth = 900;
    struct Dot {
      double x, y, radius;
    };
    std::vector<Dot> dots;
    LabelPlacer placer(kHeight);
    for (int i = 0; i < 12; ++i) dots.push_back({unit(random), unit(random) * kHeight, 3 + 10 * unit(random)});
    for (const Dot& d : dots) placer.dot(d.x, d.y, d.radius);
    struct Box {
      double left, top, right, bottom;
    };
    std::vector<Box> placed;
    for (const Dot& d : dots) {
      constexpr std::size_t kLetters = 9;
      const auto p = placer.place(d.x, d.y, d.radius, kLetters);
      if (!p) continue;
      const double at = d.x * kWidth + p->dx, length = 7 * kLetters;
      const double left = p->anchor == Anchor::start ? at : p->anchor == Anchor::end ? at - length : at - length / 2;
      const Box b = {left, d.y + p->dy - 10, left + length, d.y + p->dy + 3};
      for (const Box& o : placed)
        BOOST_TEST(!(b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom));
      for (const Dot& o : dots)
        BOOST_TEST(!(o.x * kWidth > b.left && o.x * kWidth < b.right && o.y > b.top && o.y < b.bottom));
      placed.push_back(b);
    }
    BOOST_TEST(!placed.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
