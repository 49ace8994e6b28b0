// operators.cpp - what the kernels of the steps were for: calls, time, declared work, and how fast they did it.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "profiler/analysis_parts.h"
#include "profiler/intervals.h"

namespace spillway::profiler {
namespace {

struct Row {
  std::int64_t calls = 0, flops = 0, bytes = 0;
  Nanoseconds time = 0;
};
using Rows = std::unordered_map<std::string_view, Row>;

void append(std::vector<Operator>& operators, const Rows& rows, Nanoseconds all_kernels) {
  for (const auto& [name, row] : rows) {
    Operator op;
    op.name = name;
    op.calls = row.calls;
    op.total_ms = to_ms(row.time);
    if (all_kernels > 0) op.share = static_cast<double>(row.time) / static_cast<double>(all_kernels);
    op.flops = row.flops;
    op.bytes = row.bytes;
    // flops / ns = GFLOP/s.
    const double ns = static_cast<double>(row.time);
    if (row.flops > 0 && row.time > 0) op.achieved_tflops = static_cast<double>(row.flops) / ns / 1e3;
    if (row.bytes > 0 && row.time > 0) op.achieved_gbs = static_cast<double>(row.bytes) / ns;
    operators.push_back(std::move(op));
  }
}

}  // namespace

std::vector<Operator> operators_of(const Profile& profile) {
  std::vector<Interval> spans;
  for (const StepSpan& step : profile.steps) spans.push_back(step.time);
  const IntervalSet steps(std::move(spans));

  // Apart, should a kernel be called what a launch declared: a rate is only of time whose work is known.
  Rows declared, undeclared;
  std::unordered_set<std::uint64_t> counted;  // a matrix product may take several kernels for one declaration
  Nanoseconds all_kernels = 0;
  for (const DeviceActivity& d : profile.device) {
    if (d.kind != DeviceActivity::Kind::kernel) continue;
    if (steps.clipped({d.time.begin, d.time.begin + 1}).intervals().empty()) continue;
    all_kernels += d.time.length();
    if (d.work == 0 || d.work > profile.works.size()) {
      Row& row = undeclared[d.name];
      ++row.calls;
      row.time += d.time.length();
      continue;
    }
    const DeclaredWork& work = profile.works[d.work - 1];
    Row& row = declared[work.name];
    row.time += d.time.length();
    if (!counted.insert(d.work).second) continue;
    ++row.calls;
    row.flops += work.flops;
    row.bytes += work.bytes;
  }

  std::vector<Operator> operators;
  append(operators, declared, all_kernels);
  append(operators, undeclared, all_kernels);
  std::sort(operators.begin(), operators.end(), [](const Operator& a, const Operator& b) {
    return a.total_ms != b.total_ms ? a.total_ms > b.total_ms : a.name < b.name;
  });
  return operators;
}

}  // namespace spillway::profiler
