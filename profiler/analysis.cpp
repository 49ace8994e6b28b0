// analysis.cpp - see analysis.h. Synchronization and overhead records are nobody's input here: a host that waits does
// not make the device busy, and a device that idles does so whether or not the host waits.
#include "profiler/analysis.h"

#include <stdexcept>

#include "profiler/analysis_parts.h"

namespace spillway::profiler {

Analysis analyze(const Profile& profile) {
  Nanoseconds total = 0;
  for (const StepSpan& step : profile.steps) total += step.time.length();
  if (total == 0) throw std::invalid_argument("analyze: the profile has no step that took time");
  return {static_cast<std::int64_t>(profile.steps.size()), ratios_of(profile), split_of(profile),
          operators_of(profile)};
}

}  // namespace spillway::profiler
