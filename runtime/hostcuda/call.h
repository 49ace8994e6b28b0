// call.h - what every CUDA call of the host device does first: record itself for a profiler, count itself, answer a
// sticky error, answer a fault that a test armed. And how it answers: the error returned is also this thread's last
// error. Streams' threads call only sticky_error() and, when a kernel fails, fail_sticky(): a lock that two streams
// take would order them, and hide a missing stream wait from ThreadSanitizer.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/hostcuda/activity.h"

namespace spillway::hostcuda {

// The first line of every call, alive until its last.
class Call {
 public:
  explicit Call(const char* function);  // static
  // What the call must return before it does anything; cudaSuccess: go on. A call that gives something back (cudaFree)
  // does so all the same: nothing of the host's leaks when the device is lost.
  cudaError_t error() const { return error_; }

 private:
  CallRecord record_;  // first: the call has begun
  cudaError_t error_;
};
// Remembers `error` as the thread's last error and returns it.
cudaError_t answer(cudaError_t error);
// What every call answers since the device's context was lost; cudaSuccess: it was not.
cudaError_t sticky_error();
// Loses the context. The first reason is kept for last_failure().
void fail_sticky(cudaError_t error, std::string reason);
// Functions by number, from 1, as records name them; 0 and null where there is none.
std::uint32_t function_id(std::string_view name);
const char* function_name(std::uint32_t id);

}  // namespace spillway::hostcuda
