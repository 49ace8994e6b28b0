// memory.cpp - where the memory of a step goes: every strategy's peak by category, and its allocations in order with
// the peak marked and explained.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/memory_chart.h"
#include "decision/report/palette.h"
#include "decision/report/sections.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using namespace profiler::svg;
namespace {

constexpr double kMiB = 1048576;

std::string categories_legend() {
  std::vector<html::Key> keys;
  for (std::size_t i = 0; i < kMemoryCategories.size(); ++i) keys.push_back({category_css(i), category_name(i)});
  return html::legend(keys);
}

Node category_at(const Node& by_category, std::size_t category) {
  return by_category[std::string(kMemoryCategories[category]) + "_bytes"];
}

// What stands at each strategy's peak, from 76.
std::string peaks(const Document& d) {
  std::vector<Node> rows;
  double most = 0;
  for (const Node& c : d.benchmark["candidates"].children()) {
    if (!c["at_peak"].present()) continue;
    rows.push_back(c);
    double sum = 0;
    for (std::size_t i = 0; i < kMemoryCategories.size(); ++i)
      sum += category_at(c["at_peak"], i).number().value_or(0) / kMiB;
    most = std::max(most, sum);
  }
  if (rows.empty() || most <= 0) return "";
  constexpr int kRow = 52;
  constexpr double kLabelled = 0.09;  // of the width: a segment that has room for its number
  const int height = kRow * static_cast<int>(rows.size());
  const Scale x = Scale::linear(0, most * 1.02), y = Scale::linear(-height, 0);
  Plot plot("What stands in memory at the peak of each strategy, by category", height, x, y);
  plot.axis_x(x.ticks(8), "allocated, MiB");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double top = -static_cast<double>(kRow) * static_cast<double>(i);
    const Node& c = rows[i];
    plot.text(0, top, 0, 16, Anchor::start, "label",
              fmt::format("{} <tspan class=\"soft\">{}</tspan>", escape(c["name"].text()),
                          figure_svg(c["peak_memory_mb"], Unit::mebibytes)));
    double at = 0;
    for (std::size_t k = 0; k < kMemoryCategories.size(); ++k) {
      const Node bytes = category_at(c["at_peak"], k);
      const double value = bytes.number().value_or(0) / kMiB;
      if (value <= 0) continue;
      plot.box(at, top - 22, at + value, top - 46, "seg " + category_css(k),
               fmt::format("{}: {}", category_name(k), figure_text(bytes, Unit::bytes)));
      if (value > kLabelled * x.high())
        plot.text(at + value / 2, top - 22, 0, 16, Anchor::middle, "on wide on-" + category_css(k),
                  figure_svg(bytes, Unit::bytes));
      at += value;
    }
  }
  return "<h3>At the peak</h3>\n" + html::figure_box(plot.svg(), "");
}

struct Owner {
  std::string name;
  std::size_t category = kMemoryCategories.size();
  std::vector<Node> bytes;
  double sum = 0;
};

// Blocks of one owner and category are one row.
std::vector<Owner> owners_of(const Node& peak) {
  std::map<std::pair<std::string, std::string>, Owner> all;
  for (const Node& block : peak["owners"].children()) {
    Owner& owner = all[{block["owner"].text(), block["category"].text()}];
    owner.name = block["owner"].text();
    owner.category = category_index(block["category"].text());
    owner.bytes.push_back(block["bytes"]);
    owner.sum += block["bytes"].number().value_or(0);
  }
  std::vector<Owner> sorted;
  for (auto& [key, owner] : all) sorted.push_back(std::move(owner));
  std::stable_sort(sorted.begin(), sorted.end(), [](const Owner& a, const Owner& b) { return a.sum > b.sum; });
  return sorted;
}

std::string owners_table(const Node& peak) {
  constexpr std::size_t kRows = 12;
  const std::vector<Owner> owners = owners_of(peak);
  std::string rows;
  for (std::size_t i = 0; i < std::min(kRows, owners.size()); ++i) {
    const Owner& o = owners[i];
    const bool known = o.category < kMemoryCategories.size();
    std::vector<Node> of_peak = o.bytes;
    of_peak.push_back(peak["allocated_bytes"]);
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"n\"><span class=\"key {}\"></span>{}</td>{}{}</tr>\n",
                        escape(o.name), known ? category_css(o.category) : "", known ? category_name(o.category) : "–",
                        computed_figure(Operation::add, o.bytes, Unit::bytes, Form::cell),
                        computed_figure(Operation::divide, of_peak, Unit::share, Form::cell));
  }
  return html::table({"owner", {"category", true}, "MiB", "share<br>%"}, rows, "The largest owners at the peak") +
         (owners.size() > kRows
              ? fmt::format("<p class=\"soft small\">The largest {} of {} owners.</p>\n", kRows, owners.size())
              : "");
}

std::string explain_peak(const Node& root) {
  const Node peak = root["peak"], by = peak["by_category"];
  std::vector<std::pair<double, std::size_t>> parts;
  for (std::size_t i = 0; i < kMemoryCategories.size(); ++i)
    parts.emplace_back(category_at(by, i).number().value_or(0), i);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string most;
  for (std::size_t i = 0; i < 2; ++i)
    most += fmt::format("{}<span class=\"n\"><span class=\"key {}\"></span>{}</span> {}", i == 0 ? "" : ", ",
                        category_css(parts[i].second), category_name(parts[i].second),
                        figure(category_at(by, parts[i].second), Unit::bytes));
  const double index = peak["index"].number().value_or(-1);
  const bool known = index >= 0 && index < static_cast<double>(root["points"].size());
  const Node event = known ? root["points"][static_cast<std::size_t>(index)] : Node();
  std::string during;
  if (event["owner"].present())
    during =
        fmt::format(", reached when {} took {}", escape(event["owner"].text()), figure(event["bytes"], Unit::bytes));
  return fmt::format("<p class=\"small\">Peak {}{}. Most of it: {}. Reserved then: {}.</p>\n",
                     figure(peak["allocated_bytes"], Unit::bytes), during, most,
                     figure(peak["reserved_bytes"], Unit::bytes));
}

std::string timelines(const Document& d) {
  if (d.timelines.empty())
    return html::note("No memory timeline stands in the folder: experiment 74 writes <code>74_memory_*.json</code>.");
  double most = 0;
  for (const Document::Timeline& t : d.timelines) most = std::max(most, highest_mib(t.root));
  std::string body =
      "<h3>Over the run</h3>\n<p>Every allocation and free in order, stacked by category; all on one scale. The line "
      "above is what the allocator holds reserved.</p>\n" +
      categories_legend() + "<div class=\"multiples\">\n";
  for (const Document::Timeline& t : d.timelines)
    body += fmt::format("<div><h4>{}</h4>{}{}{}</div>\n", escape(t.strategy),
                        html::figure_box(memory_chart(t.root, t.strategy, most), ""), explain_peak(t.root),
                        html::details("Who holds the peak", owners_table(t.root["peak"])));
  return body + "</div>\n";
}

}  // namespace

std::string memory(const Document& d) {
  const std::string at_peak = peaks(d);
  return html::section("memory", "Where the memory goes", "",
                       (at_peak.empty() ? "" : categories_legend() + at_peak) + timelines(d));
}

}  // namespace spillway::decision::sections
