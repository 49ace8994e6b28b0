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

// A counter that only grows, and may wrap.
class Counter {
 public:
  bool reached(std::uint32_t value) const { return is_at(value_.load(std::memory_order_acquire), value); }
  // Everything before this happens before whoever sees the new value.
  void store(std::uint32_t value) {
    value_.store(value, std::memory_order_release);
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&value_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
  // Returns when the counter has reached `value`.
  void wait_for(std::uint32_t value) const {
    while (!reached(value)) sleep_while_below(value);
  }
  // The same, but the waiter is ordered after nobody: what it may rely on, something else must tell.
  void wait_unordered(std::uint32_t value) const {
    while (!is_at(value_.load(std::memory_order_relaxed), value)) sleep_while_below(value);
  }

 private:
  static bool is_at(std::uint32_t now, std::uint32_t value) { return static_cast<std::int32_t>(now - value) >= 0; }
  // May return early.
  void sleep_while_below(std::uint32_t value) const {
    const std::uint32_t seen = value_.load(std::memory_order_relaxed);
    if (!is_at(seen, value))
      ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&value_), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr,
                0);
  }

  std::atomic<std::uint32_t> value_{0};
};

}  // namespace spillway::hostcuda
