// trace_reading.h - a trace file (profiler/trace.h writes them) back into lanes, for the report's picture of one step.
#pragma once
#include <string>
#include <vector>

#include "decision/report/node.h"

namespace spillway::decision {

// Microseconds from the trace's origin.
struct TraceSlice {
  std::string name, category, phase;  // phase: of what issued it, "" where none did
  double begin = 0, end = 0;
};
struct TraceLane {
  bool device = false;
  std::string name;                // "compute", "host thread 1"
  std::vector<TraceSlice> slices;  // by begin, what holds others before them
};
struct TraceStep {
  std::string name;
  double begin = 0, end = 0;
};
struct StepTrace {
  TraceStep step;                // the one of median length (the shorter of two)
  std::size_t steps = 0;         // that the trace has
  std::vector<TraceLane> lanes;  // cut to the step: host's first, lanes of one name together
};

// Error: an event without a number where one must stand, or no step.
StepTrace read_step(const Node& trace);

}  // namespace spillway::decision
