// range.h - a stretch of host code that issues work, named: Range range(Phase::backward, "attention", layer). While a
// Recorder runs, everything that the device does for a call within it is attributed to it, by correlation ids; a tool
// that watches from outside (Nsight Systems) sees the same names through NVTX. Without either it costs a load and two
// empty calls. This is all of the profiler that model/ knows.
#pragma once
#include <cstdint>

#include "profiler/activity.h"

namespace spillway::profiler {

// The range around all of a training step's work is called this.
inline constexpr const char* kStepRange = "step";

// Ranges of a thread nest: the last to begin is the first to end. Work belongs to the innermost.
class Range {
 public:
  // `name` is read here and not kept; "" names the layer alone. layer -1: of no layer.
  Range(Phase phase, const char* name, int layer = -1);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  std::uint64_t id_ = 0;  // 0: nobody records
};

}  // namespace spillway::profiler
