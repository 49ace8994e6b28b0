// slowness.cpp - see slowness.h.
#include "runtime/hostcuda/slowness.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/hostcuda/control.h"

namespace spillway::hostcuda {
namespace {

struct Delay {
  std::atomic<std::int64_t> us{0};
  std::atomic<std::uint64_t> seed{0};
};
constexpr int kStreams = 64;  // that can be delayed one by one
Delay g_delay[kStreams], g_delay_all;

std::atomic<std::int64_t> g_host_delay_us{0};
std::atomic<double> g_link_gbps{0};
std::atomic<std::int64_t> g_link_free_ns[2];  // when each direction's link has finished what it was given

}  // namespace

void delay_stream(int index, std::chrono::microseconds delay, std::uint64_t seed) {
  if (index < -1 || index >= kStreams)
    throw std::invalid_argument("stream " + std::to_string(index) + ": one can be delayed by its number, 0 to " +
                                std::to_string(kStreams - 1) + ", or all by -1");
  Delay& d = index < 0 ? g_delay_all : g_delay[index];
  d.seed.store(seed, std::memory_order_relaxed);
  d.us.store(delay.count(), std::memory_order_relaxed);
}

void sleep_if_delayed(int stream) {
  const bool own = stream < kStreams && g_delay[stream].us.load(std::memory_order_relaxed) > 0;
  const Delay& delay = own ? g_delay[stream] : g_delay_all;
  std::int64_t us = delay.us.load(std::memory_order_relaxed);
  if (us <= 0) return;
  if (const std::uint64_t seed = delay.seed.load(std::memory_order_relaxed); seed != 0) {
    thread_local std::mt19937_64 random;
    thread_local std::uint64_t seeded = 0;
    if (seeded != seed) random.seed((seeded = seed) + 977 * static_cast<std::uint64_t>(stream));
    us = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(us + 1));
  }
  std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void delay_host(std::chrono::microseconds delay) {
  g_host_delay_us.store(delay.count(), std::memory_order_relaxed);
}
void sleep_if_host_is_delayed() {
  const std::int64_t us = g_host_delay_us.load(std::memory_order_relaxed);
  if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void set_link_gbps(double gbps) {
  if (!std::isfinite(gbps) || gbps < 0)
    throw std::invalid_argument("a link of " + std::to_string(gbps) + " GB/s: must be above 0, or 0 for no limit");
  g_link_gbps.store(gbps, std::memory_order_relaxed);
}

void occupy_link(Link link, std::size_t bytes) {
  const double gbps = g_link_gbps.load(std::memory_order_relaxed);
  if (gbps <= 0) return;
  using Clock = std::chrono::steady_clock;
  const std::int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  const auto lasts = static_cast<std::int64_t>(static_cast<double>(bytes) / gbps);  // bytes / (GB/s) is ns
  auto& free_at = g_link_free_ns[link == Link::to_device];
  std::int64_t begin = free_at.load(std::memory_order_relaxed), end = 0;
  do end = std::max(begin, now) + lasts;
  while (!free_at.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(end)));
}

void reset_slowness() {
  for (Delay& delay : g_delay) delay.us.store(0, std::memory_order_relaxed);
  g_delay_all.us.store(0, std::memory_order_relaxed);
  g_host_delay_us.store(0, std::memory_order_relaxed);
  g_link_gbps.store(0, std::memory_order_relaxed);
}

}  // namespace spillway::hostcuda
