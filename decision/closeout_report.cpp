// closeout_report.cpp - experiment 74 for people: where the step's time went in both candidates, what that explains,
// what limits the step and what to do about it.
#include <fmt/format.h>

#include "decision/profiling_closeout.h"
#include "decision/table.h"

namespace spillway::decision {
namespace {

std::string splits(const Closeout& c) {
  using Split = profiler::StepSplit;
  const Split &base = c.baseline.analysis->split, &tuned = c.tuned.analysis->split;
  Table t({"part", "baseline", c.choice.name, "difference"});
  const std::pair<const char*, double Split::*> parts[] = {{"compute", &Split::compute_ms},
                                                           {"recompute", &Split::recompute_ms},
                                                           {"optimizer", &Split::optimizer_ms},
                                                           {"exposed copy out", &Split::exposed_copy_out_ms},
                                                           {"exposed copy in", &Split::exposed_copy_in_ms},
                                                           {"allocation", &Split::allocation_ms},
                                                           {"idle", &Split::idle_ms},
                                                           {"sum", &Split::step_ms}};
  for (const auto& [name, part] : parts)
    t.row({name, fmt::format("{:.2f}", base.*part), fmt::format("{:.2f}", tuned.*part),
           fmt::format("{:+.2f}", tuned.*part - base.*part)});
  return t.text();
}

std::string operators(const profiler::Analysis& analysis) {
  constexpr std::size_t kShown = 8;
  Table t({"operator", "calls", "ms", "share", "GFLOP/s", "GB/s"});
  for (std::size_t i = 0; i < std::min(kShown, analysis.operators.size()); ++i) {
    const profiler::Operator& o = analysis.operators[i];
    t.row({o.name, std::to_string(o.calls), fmt::format("{:.2f}", o.total_ms), fmt::format("{:.1f}%", 100 * o.share),
           o.achieved_tflops ? fmt::format("{:.1f}", 1000 * *o.achieved_tflops) : "-",
           o.achieved_gbs ? fmt::format("{:.1f}", *o.achieved_gbs) : "-"});
  }
  return t.text();
}

std::string ceiling(const char* name, const std::optional<double>& value, double scale, const char* unit) {
  return value ? fmt::format("{} {:.1f} {}", name, *value * scale, unit) : fmt::format("{} not measured", name);
}

}  // namespace

std::string closeout_report(const Closeout& c) {
  Table t({"candidate", "strategy", "step ms", "spread", "samples/s", "peak MiB", "loss", "profiled ms", "overhead"});
  for (const ProfiledCandidate* p : {&c.baseline, &c.tuned}) {
    const Measurement& m = p->measured;
    t.row({m.name, m.strategy, fmt::format("{:.1f}", median_step_ms(m)), spread_text(m),
           fmt::format("{:.3f}", samples_per_s(m)), fmt::format("{:.1f}", mib(m.peak_bytes)),
           fmt::format("{:.6f}", m.samples.back().loss), fmt::format("{:.1f}", median_step_ms(p->profiled)),
           fmt::format("{:.3f}", median_step_ms(p->profiled) / median_step_ms(m))});
  }
  std::string text = fmt::format("tuned is {}: {}\n{}", c.choice.name, c.choice.chosen_by, t.text());
  if (c.figures.profiled) {
    text += fmt::format("\n{}measured difference {:+.2f} ms (noise {:.2f}), by the profile {:+.2f} ms: {}\n", splits(c),
                        c.measured_difference_ms, c.noise_ms, c.profiled_difference_ms,
                        c.figures.explained ? "explained" : "NOT explained");
    text += fmt::format("\n{} of {}\n{}", "operators", c.choice.name, operators(*c.tuned.analysis));
    text += fmt::format("ceilings: {}, {}, {}, {}\n", ceiling("products", c.ceilings.tflops, 1000, "GFLOP/s"),
                        ceiling("memory", c.ceilings.memory_gbs, 1, "GB/s"),
                        ceiling("link in", c.ceilings.host_to_device_gbs, 1, "GB/s"),
                        ceiling("link out", c.ceilings.device_to_host_gbs, 1, "GB/s"));
    const profiler::Bottleneck& b = *c.tuned.bottleneck;
    text += fmt::format("bottleneck: {} (then {}). {}\n{}\n", b.category, b.runner_up.empty() ? "none" : b.runner_up,
                        b.evidence, b.optimization);
  } else {
    text += fmt::format("no profile: {}\n", c.tuned.unavailable.empty() ? c.baseline.unavailable : c.tuned.unavailable);
  }
  if (c.figures.profiled && !c.figures.profile_complete) {
    const profiler::Completeness& l = c.tuned.completeness;
    text += fmt::format("the profile is incomplete: {} dropped, {} without times, {} out of range, {} unattributed\n",
                        l.dropped, l.zero_timestamps, l.out_of_range, l.unattributed);
  }
  return text +
         fmt::format("decision: {} ({}); next: {}\n", c.decision.decision, c.decision.reason, c.decision.next_action);
}

}  // namespace spillway::decision
