// memory_chart.cpp - see memory_chart.h.
#include "decision/report/memory_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "decision/report/figures.h"
#include "decision/report/palette.h"
#include "profiler/svg.h"
#include "runtime/error.h"

namespace spillway::decision {
using namespace profiler::svg;
namespace {

constexpr double kMiB = 1048576;
constexpr std::size_t kColumns = 900;
constexpr int kHeight = 190;

struct State {
  std::size_t index = 0;
  double reserved = 0, allocated = 0;
  std::array<double, memory::kCategories> by_category{};
};

// Straight from the JSON: a run has many thousand points, and nodes know their place, which nobody asks here.
State state_at(const Node& points, std::size_t index) {
  const nlohmann::ordered_json& point = points.json()[index];
  const auto number = [&](const char* key) {
    const auto it = point.find(key);
    if (it == point.end() || !it->is_number())
      throw Error(fmt::format("{}/{} has no number {}", points.source(), index, key));
    return it->get<double>();
  };
  State s{index, number("reserved"), number("allocated"), {}};
  const auto by = point.find("by_category");
  if (by == point.end() || !by->is_array() || by->size() != s.by_category.size())
    throw Error(
        fmt::format("{}/{}: by_category is no list of {} numbers", points.source(), index, s.by_category.size()));
  for (std::size_t i = 0; i < s.by_category.size(); ++i) {
    if (!(*by)[i].is_number()) throw Error(fmt::format("{}/{}: by_category holds no number", points.source(), index));
    s.by_category[i] = (*by)[i].get<double>();
  }
  return s;
}

// Of each column of points the one with the most allocated.
std::vector<State> columns(const Node& points) {
  const std::size_t count = points.size();
  const std::size_t each = std::max<std::size_t>(1, (count + kColumns - 1) / kColumns);
  std::vector<State> states;
  for (std::size_t first = 0; first < count; first += each) {
    State most = state_at(points, first);
    for (std::size_t i = first + 1; i < std::min(count, first + each); ++i) {
      const State s = state_at(points, i);
      if (s.allocated > most.allocated) most = s;
    }
    most.index = first;
    states.push_back(most);
  }
  return states;
}

// A line that keeps its value to the next point, in the plot's path units.
std::string step_line(const Plot& plot, const std::vector<State>& states, std::size_t count, auto&& value) {
  std::string d, last;
  for (const State& s : states) {
    const std::string y = fmt::format("{:.1f}", plot.path_y(value(s) / kMiB));
    if (y == last) continue;
    const std::string at = coordinate(plot.path_x(static_cast<double>(s.index)));
    d += d.empty() ? fmt::format("M{},{}", at, y) : fmt::format("H{}V{}", at, y);
    last = y;
  }
  return d + fmt::format("H{}", coordinate(plot.path_x(static_cast<double>(count))));
}

}  // namespace

double highest_mib(const Node& timeline) {
  double most = 0;
  const Node points = timeline["points"];
  for (std::size_t i = 0; i < points.size(); ++i) {
    const State s = state_at(points, i);
    most = std::max({most, s.reserved / kMiB, s.allocated / kMiB});
  }
  return most;
}

std::string memory_chart(const Node& timeline, const std::string& strategy, double most) {
  const std::vector<State> states = columns(timeline["points"]);
  if (states.empty() || !(most > 0)) return "<p class=\"soft\">The timeline has no events.</p>";
  const std::size_t count = timeline["points"].size();
  const Scale x = Scale::linear(0, static_cast<double>(count)), y = Scale::linear(0, most * 1.12);
  Plot plot("Allocated memory of " + strategy + " over its events, by category", kHeight, x, y);
  plot.axis_y(y.ticks(5), "MiB");
  plot.axis_x(x.ticks(5), "events of the allocator");

  // From the top of the stack down: each area covers what lies below it, so that one line bounds it.
  for (std::size_t c = memory::kCategories; c-- > 0;) {
    const auto stacked = [c](const State& s) {
      double sum = 0;
      for (std::size_t i = 0; i <= c; ++i) sum += s.by_category[i];
      return sum;
    };
    const bool any = std::any_of(states.begin(), states.end(), [c](const State& s) { return s.by_category[c] > 0; });
    if (any)
      plot.path(step_line(plot, states, count, stacked) +
                    fmt::format("V{}H{}Z", kHeight, coordinate(plot.path_x(static_cast<double>(states[0].index)))),
                "area " + category_css(c));
  }
  plot.path(step_line(plot, states, count, [](const State& s) { return s.reserved; }), "reserved");

  const Node peak = timeline["peak"];
  const auto at = peak["index"].number(), height = peak["allocated_bytes"].number();
  if (at && height) {
    const double mib = *height / kMiB;
    const bool right = x.at(*at) < 0.55;
    plot.line(*at, 0, *at, y.high(), "peak-line");
    plot.dot(*at, mib, 3.5, "peak-dot", "peak: " + figure_text(peak["allocated_bytes"], Unit::bytes));
    plot.text(*at, y.high(), right ? 6 : -6, 12, right ? Anchor::start : Anchor::end, "label strong",
              "peak " + figure_svg(peak["allocated_bytes"], Unit::bytes));
  }
  return plot.svg();
}

}  // namespace spillway::decision
