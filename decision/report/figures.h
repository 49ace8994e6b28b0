// figures.h - how the report shows a number: one function formats it, and it carries its full value and where in which
// record it stands (data-value, data-source), or which operation on which places it is the result of (data-op). Tests
// compare every one of them with the records.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "decision/report/node.h"

namespace spillway::decision {

// What a stored value is, and so how it is shown.
enum class Unit {
  count,         // whole
  mebibytes,     // stored in MiB
  bytes,         // stored in bytes, shown in MiB
  milliseconds,  //
  microseconds,  // shown in ms
  share,         // of 1, shown in %
  percent,       // stored in %
  ratio,         //
  per_second,    // samples/s
  loss,          //
  flops,         // shown in GFLOP
  tflops,        // TFLOP/s
  gbs            // GB/s
};
const char* name_of(Unit unit);    // of the stored value, as in data-unit
const char* symbol_of(Unit unit);  // of the shown one: "MiB", "" where there is none

// "288.0", and with its unit "288.0 MiB". A true minus; narrow spaces between thousands.
std::string digits(double value, Unit unit);
std::string with_unit(double value, Unit unit);

// A figure inside of running text, with its unit; a dash with the reason where it was not measured.
std::string figure(const Node& node, Unit unit);
// The same in an SVG text.
std::string figure_svg(const Node& node, Unit unit);
// Without its unit, where the text around it says that.
std::string figure_bare(const Node& node, Unit unit);
// Its text alone, for tooltips; "not measured".
std::string figure_text(const Node& node, Unit unit);
// A cell of a table whose head says the unit.
std::string figure_cell(const Node& node, Unit unit);

// Computed here from several places: minuend - subtrahend, the sum of all but the last /
// the last, the sum of all. A dash, when one is absent.
enum class Operation { subtract, divide, add };
enum class Form { text, svg, cell, bare };  // bare: inside of other text, without its unit
std::optional<double> computed(Operation operation, const std::vector<Node>& nodes);
std::string computed_figure(Operation operation, const std::vector<Node>& nodes, Unit unit, Form form);

}  // namespace spillway::decision
