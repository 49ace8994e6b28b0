// call.h - what every CUDA call of the host device does first: count itself, answer a sticky error, answer a fault that
// a test armed. And how it answers: the error returned is also this thread's last error.
#pragma once
#include <cuda_runtime_api.h>

#include <string>

namespace spillway::hostcuda {

// The error that `function` must return before it does anything; cudaSuccess: go on.
cudaError_t enter(const char* function);
// Remembers `error` as the thread's last error and returns it.
cudaError_t answer(cudaError_t error);
// An error that every later call answers: the device's context is lost. `reason` is kept for last_failure().
void fail_sticky(cudaError_t error, std::string reason);

// Seconds that a copy of `bytes` over the link must last, and which direction's link it uses.
enum class Link { to_device, to_host };
void occupy_link(Link link, std::size_t bytes);
// Sleeps as delay_stream asked of the stream with this number.
void sleep_if_delayed(int stream_index);

}  // namespace spillway::hostcuda
