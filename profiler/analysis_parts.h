// analysis_parts.h - the three questions that analyze() puts to a profile, one a file, and what they share. Each takes
// a profile whose steps take time together.
#pragma once
#include <vector>

#include "profiler/activity.h"
#include "profiler/analysis.h"

namespace spillway::profiler {

// Between host and device, over the link.
inline bool is_transfer(DeviceActivity::Kind kind) {
  return kind == DeviceActivity::Kind::host_to_device || kind == DeviceActivity::Kind::device_to_host;
}
inline double to_ms(Nanoseconds ns) {
  return static_cast<double>(ns) / 1e6;
}

Ratios ratios_of(const Profile& profile);
StepSplit split_of(const Profile& profile);
std::vector<Operator> operators_of(const Profile& profile);

}  // namespace spillway::profiler
