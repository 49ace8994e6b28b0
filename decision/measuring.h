// measuring.h - what the subcommands that measure (baseline, bench, oom-boundary, chain) say and do alike around it.
#pragma once
#include <string>

#include "decision/commands.h"
#include "decision/measurement.h"
#include "decision/progress.h"

namespace spillway::decision {

// PROTOCOL.md's file names, by device.
struct RecordNames {
  std::string training_73, benchmark_76, boundary_76, decision_75, closeout_74;
};
RecordNames record_names(const DeviceInfo& device);

// The run as given, or by time, device, model and seq.
std::string run_name(const RunPlace& place, const DeviceInfo& device, const Workload& workload);
// Two lines: what is trained, and on what.
void print_workload(Workload& workload, const DeviceInfo& device, bool model_was_chosen, const Steps& steps);
// Shows progress there, and stops at Ctrl-C.
Watcher watch(Progress& progress);

}  // namespace spillway::decision
