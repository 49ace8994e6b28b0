// cupti_state.h - what CUPTI's calls (cupti.cpp) and the records behind them (activity.cpp) share.
#pragma once
#include <cupti.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway::hostcuda {

inline constexpr int kActivityKinds = CUPTI_ACTIVITY_KIND_MEMORY_POOL + 1;
inline constexpr std::size_t kExternalKinds = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 + 1;
inline constexpr std::size_t kLargestRecord = sizeof(CUpti_ActivityKernel9);

void set_recording(CUpti_ActivityKind kind, bool on);
void set_activity_clock(CUpti_TimestampCallbackFunc clock);
// This thread's stack.
std::vector<std::uint64_t>& external_ids(CUpti_ExternalCorrelationKind kind);

struct BufferCallbacks {
  CUpti_BuffersCallbackRequestFunc requested = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed = nullptr;
};
// Hands over every record that is finished, or every one there is. What finds no room in a buffer is dropped.
void deliver_records(const BufferCallbacks& callbacks, bool unfinished_too);
// A flush that began at `start` and ends now.
void record_flush(std::uint64_t start);
// Records dropped since the last call.
std::size_t take_dropped();

}  // namespace spillway::hostcuda
