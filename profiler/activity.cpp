// activity.cpp - see activity.h: the names that traces and messages use.
#include "profiler/activity.h"

#include <array>
#include <cstddef>

namespace spillway::profiler {

const char* to_string(Phase phase) {
  constexpr std::array<const char*, 9> kNames = {"none",      "data",    "forward",  "recompute", "backward",
                                                 "optimizer", "offload", "prefetch", "evaluate"};
  return kNames[static_cast<std::size_t>(phase)];
}

const char* to_string(DeviceActivity::Kind kind) {
  constexpr std::array<const char*, 5> kNames = {"kernel", "host_to_device", "device_to_host", "device_to_device",
                                                 "memset"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace spillway::profiler
