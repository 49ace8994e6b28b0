// profiling_closeout.h - experiment 74 closes the chain: the baseline and the candidate that 75 chose, once more on one
// workload, unprofiled for the times and profiled for the reasons. Does the profile explain what the memory strategy
// costs, and is the gain worth it?
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decision/measurement.h"
#include "decision/rules.h"
#include "decision/run_record.h"
#include "profiler/activity.h"
#include "profiler/analysis.h"
#include "profiler/memory_timeline.h"

namespace spillway::decision {

// ---- the rules ------------------------------------------------------------------------------------------------------

struct CloseoutThresholds {
  double time_delta_ms = 10;         // baseline - tuned: a gain
  double samples_per_s_delta = 0.1;  // tuned - baseline: a gain
  double explained_within = 0.10;    // of the measured difference in step time
};

// What the decision follows from.
struct CloseoutFigures {
  bool profiled = false;          // there is a profile of both
  bool profile_complete = false;  // and nothing of either was lost
  bool loss_equal = false;        // every loss of both, bit for bit
  double time_delta_ms = 0, samples_per_s_delta = 0;
  double memory_delta_bytes = 0;  // baseline - tuned
  bool accepted_by_75 = false;    // 75 accepted this candidate
  bool explained = false;         // see explains()
};
// The profiled difference in step time accounts for the measured one: within `thresholds.explained_within` of it, or
// both are smaller than what the measurement can tell (`noise_ms`).
bool explains(double measured_ms, double profiled_ms, double noise_ms, const CloseoutThresholds& thresholds);
// What the difference of the medians of two samples may be from chance alone: twice its standard error, ms.
double noise_of_difference(const std::vector<double>& a, const std::vector<double>& b);
Decision decide_closeout(const CloseoutFigures& figures, const CloseoutThresholds& thresholds);

// Which candidate is tuned, and why it: 75's best, else 76's best, else (where that is the baseline, or nothing is
// feasible) the measured candidate with the smallest peak. Error when nothing but the baseline was measured.
struct TunedChoice {
  std::string name, chosen_by;
  bool accepted_by_75 = false;
};
TunedChoice choose_tuned(const nlohmann::ordered_json& record_76, const nlohmann::ordered_json& record_75);

// ---- the experiment -------------------------------------------------------------------------------------------------

struct CloseoutOptions {
  Steps steps{3, 10, 3};
  CloseoutThresholds thresholds;
  profiler::BottleneckThresholds bottleneck;
};

// A candidate: measured unprofiled, and profiled beside it.
struct ProfiledCandidate {
  Measurement measured;
  Measurement profiled;                 // its times are the profiler's overhead, nothing else
  std::string tool, unavailable;        // of the profile; why there is none
  profiler::Completeness completeness;  // of all its profiled steps
  // Of the profiled step whose time is the median: what is drawn, analysed and explained.
  std::optional<profiler::Profile> step;
  profiler::MemoryTimeline memory;  // of that step
  std::optional<profiler::Analysis> analysis;
  double step_events_ms = 0;  // that step's time by events, to hold against the split's sum
  std::optional<profiler::Bottleneck> bottleneck;
};

struct NamedTimeline {
  std::string strategy;
  profiler::MemoryTimeline timeline;
};

struct Closeout {
  CloseoutOptions options;
  Run run;
  TunedChoice choice;
  ProfiledCandidate baseline, tuned;
  profiler::Ceilings ceilings;
  std::vector<NamedTimeline> timelines;  // a step of every strategy that 76 measured
  double measured_difference_ms = 0, profiled_difference_ms = 0, noise_ms = 0;
  CloseoutFigures figures;
  Decision decision;
};

// Measures. `strategies`: those to record a memory timeline of. Throws Interrupted; Error when one of the two runs out
// of memory.
Closeout run_closeout(const CloseoutOptions& options, const TunedChoice& choice,
                      const std::vector<std::string>& strategies, const DeviceInfo& device, Workload& workload,
                      const Watcher& watcher);

// ---- as a record and for people -------------------------------------------------------------------------------------

// What a run of 74 predicted, and what the next one found. Null when `previous` (a 74 record of the same workload) has
// no prediction.
nlohmann::ordered_json compare_with_previous(const Closeout& closeout, const nlohmann::ordered_json& previous,
                                             const std::string& file);
struct CloseoutFiles {
  nlohmann::ordered_json sources;    // {"73": file_identity, "76": ..., "75": ...}
  nlohmann::ordered_json traces;     // {"baseline": file_identity, "tuned": ...}
  nlohmann::ordered_json timelines;  // {"baseline": "74_memory_baseline.json", ...}
  nlohmann::ordered_json previous;   // see compare_with_previous
};
// The 74 record of PROTOCOL.md.
nlohmann::ordered_json closeout_record(const Closeout& closeout, const CloseoutFiles& files,
                                       const std::string& command_line);
std::string closeout_report(const Closeout& closeout);
// The decision again, from a record alone; for check.
Decision closeout_decision_of(const nlohmann::ordered_json& record);

}  // namespace spillway::decision
