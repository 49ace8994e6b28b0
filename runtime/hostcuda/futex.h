// futex.h - waiting for a counter to grow, with only the ordering that CUDA gives. Mutexes and std::atomic::wait order
// the waiter before the one that wakes it, which no CUDA call promises; such an edge would hide a missing stream wait
// from ThreadSanitizer. Here the waiter only reads: acquire pairs with the writer's release, and nothing runs back.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace spillway::hostcuda {

// A counter that only grows (and may wrap): what was submitted, what is done.
class Counter {
 public:
  std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  // Everything before this happens before whoever sees the new value.
  void store(std::uint32_t value) {
    value_.store(value, std::memory_order_release);
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&value_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
  // Returns when the counter has reached `value`.
  void wait_for(std::uint32_t value) const {
    for (std::uint32_t now = load(); static_cast<std::int32_t>(now - value) < 0; now = load()) sleep_while(now);
  }
  // Sleeps unless the counter has moved on from `seen`; may wake for no reason.
  void sleep_while(std::uint32_t seen) const {
    ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&value_), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr,
              0);
  }

 private:
  std::atomic<std::uint32_t> value_{0};
};

}  // namespace spillway::hostcuda
