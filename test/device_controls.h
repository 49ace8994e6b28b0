// device_controls.h - the host device's knobs, for tests that run on a GPU too: there, delays, faults and books-only
// mode do not exist, and the same tests run without them. A test that means nothing without a fault is enabled by
// kHostDevice.
#pragma once
#ifdef SPILLWAY_HOST
#include "runtime/hostcuda/control.h"

namespace spillway::test {
inline constexpr bool kHostDevice = true;
}

#else
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <string_view>

namespace spillway::test {
inline constexpr bool kHostDevice = false;
}
namespace spillway::hostcuda {
inline void delay_stream(int, std::chrono::microseconds, std::uint64_t = 0) {}
inline void delay_host(std::chrono::microseconds) {}
inline void set_link_gbps(double) {}
inline void fail_call(std::string_view, std::uint64_t, cudaError_t, bool = false) {}
inline void reset_faults() {}
inline void set_pool_threads(int) {}
inline int pool_threads() {
  return 1;
}
inline void set_books_only(bool) {}
inline void set_device_memory(std::int64_t) {}
inline std::int64_t device_memory() {
  return 0;
}
inline std::uint64_t calls(std::string_view) {
  return 0;
}
}  // namespace spillway::hostcuda
#endif
