// bottleneck.cpp - what limits a step: the rules in their order, each with the numbers that it looked at, what to do
// about it, and what that should save.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "profiler/analysis.h"
#include "profiler/roofline.h"

namespace spillway::profiler {
namespace {

struct Rule {
  Bottleneck says;  // if it is the one; its margin is negative where the rule is not met
  bool met = false;
  bool ranks = true;  // may be runner-up: not what is said when no rule is met
};

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}
// By how much `value` exceeds its threshold, as a share of it.
double over(double value, double threshold) {
  return threshold > 0 ? value / threshold - 1 : std::numeric_limits<double>::infinity();
}

Rule capacity(const BottleneckInput& in, const BottleneckThresholds& t) {
  constexpr double kMiB = 1048576;
  const double reserved = static_cast<double>(in.reserved_bytes), whole = static_cast<double>(in.capacity_bytes);
  const double share = in.capacity_bytes > 0 ? reserved / whole : 0;
  Rule r;
  r.met = in.ooms > 0 || in.allocator_retries > 0 || share >= t.reserved_share;
  const std::string of = in.capacity_bytes > 0 ? fmt::format("{:.1f} MiB ({}, threshold {})", whole / kMiB,
                                                             percent(share), percent(t.reserved_share))
                                               : std::string("a capacity that is not known");
  r.says = {
      "capacity",
      fmt::format("Out of memory: {}, retries of the allocator: {}, reserved at most: {:.1f} MiB of {}.", in.ooms,
                  in.allocator_retries, reserved / kMiB, of),
      "Keep less on the device: recompute or offload the activations of more layers, take a smaller batch, or the "
      "head's logits in smaller chunks. That makes room rather than time: no saving is predicted.",
      std::nullopt,
      "",
      std::max({over(static_cast<double>(in.ooms), 1), over(static_cast<double>(in.allocator_retries), 1),
                over(share, t.reserved_share)})};
  return r;
}

Rule transfer(const BottleneckInput& in, const BottleneckThresholds& t) {
  const Ratios& x = in.analysis.ratios;
  const StepSplit& s = in.analysis.split;
  Rule r;
  r.met = x.exposed_transfer >= t.exposed && x.exposed_transfer > x.idle;
  // Only behind a kernel that runs without a copy is there room for one.
  const double exposed = s.exposed_copy_out_ms + s.exposed_copy_in_ms;
  const double room = (x.compute - x.memory * x.overlap.value_or(0)) * s.step_ms;
  const double saving = std::min(exposed, std::max(0.0, room));
  const char* what = s.exposed_copy_in_ms > s.exposed_copy_out_ms
                         ? "Copies in are what waits most: prefetch further ahead, with more slots on the device"
                         : "Copies out are what waits most: give them longer before their slot is reused";
  r.says = {
      "transfer",
      fmt::format("Copies ran while no kernel did for {} of the step (out {:.3f} ms, in {:.3f} ms, threshold {}), "
                  "nothing ran for {}, and kernels hid {} of the copies' time.",
                  percent(x.exposed_transfer), s.exposed_copy_out_ms, s.exposed_copy_in_ms, percent(t.exposed),
                  percent(x.idle), percent(x.overlap.value_or(0))),
      fmt::format("{}, copy from pinned memory on streams of their own, or offload fewer tensors. If kernels that "
                  "run without a copy now ({:.3f} ms) hid the exposed {:.3f} ms, a step would be {:.3f} ms "
                  "shorter.",
                  what, std::max(0.0, room), exposed, saving),
      saving,
      "",
      std::min(over(x.exposed_transfer, t.exposed), over(x.exposed_transfer, x.idle))};
  return r;
}

Rule launch(const BottleneckInput& in, const BottleneckThresholds& t) {
  const Ratios& x = in.analysis.ratios;
  const StepSplit& s = in.analysis.split;
  Rule r;
  const double host_share = x.idle > 0 ? x.idle_host / x.idle : 0;
  r.met = x.idle >= t.idle && host_share >= t.idle_host_share;
  const double saving = x.idle_host * s.step_ms;
  const char* what = s.allocation_ms >= saving / 2
                         ? "Keep memory instead of allocating and freeing it within the step"
                         : "Issue work ahead of the device: fewer and larger launches, and no wait of the host for the "
                           "device within the step";
  r.says = {
      "launch",
      fmt::format("Nothing ran for {} of the step (threshold {}), and for {} of that ({:.3f} ms a step, threshold "
                  "{}) the host had not issued what ran next; it allocated and freed memory for {:.3f} ms of the "
                  "time in which nothing ran.",
                  percent(x.idle), percent(t.idle), percent(host_share), saving, percent(t.idle_host_share),
                  s.allocation_ms),
      fmt::format("{}. If the device never waited for the host, a step would be {:.3f} ms shorter.", what, saving),
      saving,
      "",
      std::min(over(x.idle, t.idle), over(host_share, t.idle_host_share))};
  return r;
}

// What the operators reach: the same evidence for every rule that looks at it.
std::vector<Rule> roofline_rules(const Roofline& roof, const Ceilings& ceilings, const BottleneckThresholds& t) {
  const double lead = roof.compute - roof.bandwidth;
  const std::string evidence = fmt::format(
      "Weighted by time, operators reach {} of {:.2f} TFLOP/s, {} of {:.1f} GB/s and {} of the nearer of the two "
      "(latency below {}, a lead of {} decides){}.",
      percent(roof.compute), *ceilings.tflops, percent(roof.bandwidth), *ceilings.memory_gbs, percent(roof.roof),
      percent(t.roofline_share), percent(t.balanced_margin),
      roof.declared_time < 1 - 1e-9
          ? fmt::format("; launches that declare their work are {} of kernel time, of the others nothing is known",
                        percent(roof.declared_time))
          : std::string());
  const auto rule = [&](const char* category, bool met, double margin, const char* what) {
    Rule r;
    r.met = met;
    r.says = {category,
              evidence,
              fmt::format(
                  "{}. Begin with {}, which takes {:.3f} ms a step at {} of its roof. If every operator reached "
                  "{} of its roof, a step would be {:.3f} ms shorter.",
                  what, roof.first->name, roof.first_ms, percent(roof.first_roof), percent(kReachable), roof.saving_ms),
              roof.saving_ms,
              "",
              margin};
    return r;
  };
  const bool high = roof.roof >= t.roofline_share;
  const double above = over(roof.roof, t.roofline_share);
  std::vector<Rule> rules = {
      rule("latency", !high, -above,
           "Neither arithmetic nor memory is kept busy: give each launch more to do, or fuse it with its neighbours"),
      rule("compute", high && lead >= t.balanced_margin, std::min(above, over(lead, t.balanced_margin)),
           "Arithmetic is the limit: use a format with a higher ceiling (bfloat16), or recompute less"),
      rule("memory_bandwidth", high && -lead >= t.balanced_margin, std::min(above, over(-lead, t.balanced_margin)),
           "Memory is the limit: fuse operators that read what another just wrote, or store narrower types"),
      rule("balanced", high, std::min(above, -over(std::abs(lead), t.balanced_margin)),
           "Arithmetic and memory are both well used; only less work makes the step shorter")};
  rules.back().ranks = false;
  return rules;
}

Rule undetermined(const BottleneckInput& in) {
  const Ratios& x = in.analysis.ratios;
  Rule r;
  r.met = true;
  r.ranks = false;
  r.says.category = "undetermined";
  r.says.evidence = fmt::format(
      "Neither memory, nor exposed copies ({} of the step), nor idle time ({}, of which {} waiting for the host) meet "
      "their "
      "rule, and of the kernels that ran for {} nothing can be said: {}.",
      percent(x.exposed_transfer), percent(x.idle), percent(x.idle > 0 ? x.idle_host / x.idle : 0), percent(x.compute),
      missing_for_roofline(in.analysis, in.ceilings));
  r.says.optimization = "Measure the ceilings and declare the work of every launch before changing anything.";
  return r;
}

}  // namespace

Bottleneck find_bottleneck(const BottleneckInput& input, const BottleneckThresholds& t) {
  for (const double threshold :
       {t.reserved_share, t.exposed, t.idle, t.idle_host_share, t.roofline_share, t.balanced_margin})
    if (!(threshold > 0)) throw std::invalid_argument(fmt::format("find_bottleneck: threshold {}, above 0", threshold));

  std::vector<Rule> rules = {capacity(input, t), transfer(input, t), launch(input, t)};
  if (const auto roof = roofline_of(input.analysis, input.ceilings)) {
    for (Rule& rule : roofline_rules(*roof, input.ceilings, t)) rules.push_back(std::move(rule));
  } else {
    rules.push_back(undetermined(input));
  }

  const auto first = std::find_if(rules.begin(), rules.end(), [](const Rule& rule) { return rule.met; });
  Bottleneck found = first->says;
  double closest = -1;  // of nothing at all
  for (auto rule = rules.begin(); rule != rules.end(); ++rule) {
    if (rule == first || !rule->ranks || rule->says.margin <= closest) continue;
    closest = rule->says.margin;
    found.runner_up = rule->says.category;
  }
  return found;
}

}  // namespace spillway::profiler
