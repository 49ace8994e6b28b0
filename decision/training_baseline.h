// training_baseline.h - experiment 73: a step as it is (`baseline`) against the same step with exactly one thing
// changed
// (`tuned`), measured in turns. It answers what one change is worth, and whether the baseline is steady enough for
// experiment 76 to build on.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "decision/measurement.h"
#include "decision/rules.h"
#include "decision/run_record.h"

namespace spillway::decision {

struct BaselineOptions {
  WorkloadOptions workload;  // of the baseline arm
  std::string strategy = "baseline";
  // What the tuned arm changes, each "variable=value": dtype, lmhead-chunk, strategy or batch. Exactly one is allowed;
  // empty: dtype=bfloat16, or float32 where the baseline is in bfloat16.
  std::vector<std::string> tuned;
  Steps steps{.warmup = 3, .iters = 10, .repeats = 3};
};

// An arm of the comparison: what a trainer is made from.
struct Arm {
  WorkloadOptions workload;
  std::string strategy;
};
struct Variation {
  std::string variable, baseline_value, tuned_value;
  Arm baseline, tuned;
};
// Error when nothing is varied, or two variables are, or a value cannot be read. Whether the device can do it is for
// Workload to say.
Variation resolve_variation(const BaselineOptions& options);

// ---- the rules of PROTOCOL.md's section on 73, on plain data --------------------------------------------------------

struct ArmFigures {
  double step_time_ms = 0, peak_mem_mb = 0, eval_loss = 0;
};
struct BaselineSummary {
  double step_time_delta_ms = 0, peak_mem_delta_mb = 0;  // baseline - tuned, 6 decimals
  double peak_mem_delta_exact_mb = 0;                    // not rounded: for the bytes
  bool time_improved = false, memory_improved = false;   // delta above 0
  double time_improvement_pct = 0, memory_improvement_pct = 0;
  bool meaningful_memory_improved = false;  // by kMeaningfulMemoryMb or more
};
inline constexpr double kMeaningfulTimeMs = 10, kMeaningfulMemoryMb = 512, kQualityMargin = 1.02;
BaselineSummary compare(const ArmFigures& baseline, const ArmFigures& tuned);
// next_action is empty: 73 has none.
Decision decide_baseline(const BaselineSummary& summary, const ArmFigures& baseline, const ArmFigures& tuned);

// ---- the experiment -------------------------------------------------------------------------------------------------

struct TrainingBaseline {
  BaselineOptions options;  // workload as resolved
  Variation variation;
  Run run;
  Measurement baseline, tuned;
  std::optional<BaselineSummary> summary;  // absent when an arm has no figures
  Decision decision;
};
// Measures. Throws Interrupted.
TrainingBaseline run_baseline(const BaselineOptions& options, const Variation& variation, const DeviceInfo& device,
                              Workload& baseline, Workload& tuned, const Watcher& watcher);

nlohmann::ordered_json baseline_summary_json(const BaselineSummary& summary);
// The 73 raw record of PROTOCOL.md.
nlohmann::ordered_json baseline_record(const TrainingBaseline& result, const std::string& command_line);
// For people: the two arms side by side, the decision and why.
std::string baseline_report(const TrainingBaseline& result);

}  // namespace spillway::decision
