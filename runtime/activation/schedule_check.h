// schedule_check.h - proves a schedule free of races and double use without running it: builds happens-before from
// stream order and events, then demands it between every write, read, copy and release of the same memory.
#pragma once
#include <string>
#include <vector>

#include "runtime/activation/schedule.h"

namespace spillway::activation {

struct ScheduleReport {
  std::vector<std::string> problems;  // one line each, naming the two actions; empty: the schedule is safe
  // Peak of the device bytes of saved tensors alone (no gradients, no workspace), unrounded, over the host's order.
  std::int64_t peak_saved_bytes = 0;
  std::int64_t offload_bytes = 0, prefetch_bytes = 0, recompute_flops = 0;
  bool ok() const { return problems.empty(); }
};
ScheduleReport check_schedule(const Schedule& schedule, const LayerSpec& spec);

}  // namespace spillway::activation
