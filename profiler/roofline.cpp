// roofline.cpp - see roofline.h.
#include "profiler/roofline.h"

#include <algorithm>

namespace spillway::profiler {
namespace {

bool measured(const std::optional<double>& ceiling) {
  return ceiling && *ceiling > 0;
}
bool has_rate(const Operator& op) {
  return op.achieved_tflops || op.achieved_gbs;
}

}  // namespace

std::string missing_for_roofline(const Analysis& analysis, const Ceilings& ceilings) {
  if (!measured(ceilings.tflops) && !measured(ceilings.memory_gbs))
    return "neither the arithmetic nor the memory ceiling was measured";
  if (!measured(ceilings.tflops)) return "the arithmetic ceiling was not measured";
  if (!measured(ceilings.memory_gbs)) return "the memory ceiling was not measured";
  if (std::none_of(analysis.operators.begin(), analysis.operators.end(), has_rate))
    return "no launch declared its work";
  return "";
}

std::optional<Roofline> roofline_of(const Analysis& analysis, const Ceilings& ceilings) {
  if (!missing_for_roofline(analysis, ceilings).empty()) return std::nullopt;
  const double steps = static_cast<double>(analysis.steps);
  Roofline r;
  double declared_ms = 0, most_saved = -1;
  for (const Operator& op : analysis.operators) {
    if (!has_rate(op)) continue;
    const double compute = op.achieved_tflops.value_or(0) / *ceilings.tflops;
    const double bandwidth = op.achieved_gbs.value_or(0) / *ceilings.memory_gbs;
    const double roof = std::max(compute, bandwidth);
    declared_ms += op.total_ms;
    r.declared_time += op.share;
    r.compute += op.total_ms * compute;
    r.bandwidth += op.total_ms * bandwidth;
    r.roof += op.total_ms * roof;
    const double saved = op.total_ms / steps * std::max(0.0, 1 - roof / kReachable);
    r.saving_ms += saved;
    if (saved <= most_saved) continue;
    most_saved = saved;
    r.first = &op;
    r.first_ms = op.total_ms / steps;
    r.first_roof = roof;
  }
  r.compute /= declared_ms;
  r.bandwidth /= declared_ms;
  r.roof /= declared_ms;
  return r;
}

}  // namespace spillway::profiler
