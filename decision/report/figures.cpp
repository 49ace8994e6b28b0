// figures.cpp - see figures.h.
#include "decision/report/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "profiler/svg.h"

namespace spillway::decision {
using profiler::svg::escape;
namespace {

struct UnitText {
  const char *name, *symbol;
  double scale;  // shown = stored * scale
};
constexpr std::array<UnitText, 13> kUnits = {{{"count", "", 1},
                                              {"mebibytes", "MiB", 1},
                                              {"bytes", "MiB", 1.0 / 1048576},
                                              {"milliseconds", "ms", 1},
                                              {"microseconds", "ms", 1e-3},
                                              {"share", "%", 100},
                                              {"percent", "%", 1},
                                              {"ratio", "×", 1},
                                              {"per_second", "samples/s", 1},
                                              {"loss", "", 1},
                                              {"flops", "GFLOP", 1e-9},
                                              {"tflops", "TFLOP/s", 1},
                                              {"gbs", "GB/s", 1}}};
const UnitText& text_of(Unit unit) {
  return kUnits[static_cast<std::size_t>(unit)];
}

constexpr const char* kNarrowSpace = "\xE2\x80\xAF";
constexpr const char* kMinus = "\xE2\x88\x92";

// Decimals so that columns line up: fixed for the size that a unit usually has, more below it.
int decimals(double shown, Unit unit) {
  const double size = std::abs(shown);
  switch (unit) {
    case Unit::count:
      return 0;
    case Unit::loss:
      return 6;
    case Unit::ratio:
      return 3;
    case Unit::mebibytes:
    case Unit::bytes:
    case Unit::share:
    case Unit::percent:
      return size == 0 || size >= 1 ? 1 : size >= 0.01 ? 2 : 4;
    case Unit::milliseconds:
    case Unit::microseconds:
      return size >= 1000 ? 1 : size == 0 || size >= 0.1 ? 2 : 4;
    default:  // three digits that mean something
      return size == 0 ? 0 : std::clamp(2 - static_cast<int>(std::floor(std::log10(size))), 0, 9);
  }
}

std::string grouped(std::string number) {
  const std::size_t end = std::min(number.find('.'), number.size());
  if (end > 4)
    for (std::size_t i = end - 3;; i -= 3) {
      number.insert(i, kNarrowSpace);
      if (i <= 3) break;
    }
  return number;
}

constexpr const char* kAbsent = R"(<span class="none" title="not measured">–</span>)";

std::string element(Form form, const std::string& attributes, double value, Unit unit) {
  if (form == Form::svg) return fmt::format("<tspan{}>{}</tspan>", attributes, with_unit(value, unit));
  if (form == Form::cell)
    return fmt::format("<td class=\"num\"><span{}>{}</span></td>", attributes, digits(value, unit));
  return fmt::format("<span class=\"n\"{}>{}</span>", attributes,
                     form == Form::bare ? digits(value, unit) : with_unit(value, unit));
}
std::string absent(Form form) {
  return form == Form::svg    ? "not measured"
         : form == Form::cell ? fmt::format("<td class=\"num\">{}</td>", kAbsent)
                              : kAbsent;
}

std::string shown(const Node& node, Unit unit, Form form) {
  const auto value = node.number();
  if (!value) return absent(form);
  return element(form,
                 fmt::format(R"( data-source="{}" data-value="{}" data-unit="{}")", escape(node.source()),
                             escape(node.dump()), name_of(unit)),
                 *value, unit);
}

}  // namespace

const char* name_of(Unit unit) {
  return text_of(unit).name;
}
const char* symbol_of(Unit unit) {
  return text_of(unit).symbol;
}

std::string digits(double value, Unit unit) {
  const double shown = value * text_of(unit).scale;
  std::string text = fmt::format("{:.{}f}", std::abs(shown), decimals(shown, unit));
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return (std::signbit(shown) && !zero ? kMinus : "") + grouped(std::move(text));
}

std::string with_unit(double value, Unit unit) {
  const std::string symbol = symbol_of(unit);
  const char* space = symbol.empty() || unit == Unit::ratio ? "" : "\xC2\xA0";
  return digits(value, unit) + space + symbol;
}

std::string figure(const Node& node, Unit unit) {
  return shown(node, unit, Form::text);
}
std::string figure_svg(const Node& node, Unit unit) {
  return shown(node, unit, Form::svg);
}
std::string figure_cell(const Node& node, Unit unit) {
  return shown(node, unit, Form::cell);
}
std::string figure_bare(const Node& node, Unit unit) {
  return shown(node, unit, Form::bare);
}
std::string figure_text(const Node& node, Unit unit) {
  const auto value = node.number();
  return value ? with_unit(*value, unit) : "not measured";
}

std::optional<double> computed(Operation operation, const std::vector<Node>& nodes) {
  std::vector<double> values;
  for (const Node& node : nodes)
    if (const auto value = node.number())
      values.push_back(*value);
    else
      return std::nullopt;
  if (values.empty()) return std::nullopt;
  if (operation == Operation::subtract)
    return std::accumulate(values.begin() + 1, values.end(), values[0], std::minus());
  if (operation == Operation::add) return std::accumulate(values.begin(), values.end(), 0.0);
  if (values.back() == 0) return std::nullopt;
  return std::accumulate(values.begin(), values.end() - 1, 0.0) / values.back();
}

std::string computed_figure(Operation operation, const std::vector<Node>& nodes, Unit unit, Form form) {
  const auto value = computed(operation, nodes);
  if (!value) return absent(form);
  constexpr std::array<const char*, 3> kNames = {"subtract", "divide", "add"};
  std::vector<std::string> sources;
  for (const Node& node : nodes) sources.push_back(escape(node.source()));
  return element(
      form,
      fmt::format(R"( data-source="{}" data-op="{}" data-value="{}" data-unit="{}")", fmt::join(sources, " "),
                  kNames[static_cast<std::size_t>(operation)], *value, name_of(unit)),
      *value, unit);
}

}  // namespace spillway::decision
