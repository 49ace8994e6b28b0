// call.cpp - see call.h: call counts, armed faults, sticky errors, and the link's speed. Stream threads touch only
// atomics here, with relaxed order: a lock shared by two streams would order them, and hide a missing stream wait from
// ThreadSanitizer.
#include "runtime/hostcuda/call.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/hostcuda/control.h"

namespace spillway::hostcuda {
namespace {

struct Fault {
  std::uint64_t at;  // the call's number
  cudaError_t error;
  bool sticky;
};

struct Calls {
  std::mutex mutex;
  std::map<std::string, std::uint64_t, std::less<>> count;
  std::multimap<std::string, Fault, std::less<>> faults;
  std::string failure;
};
Calls& calls_state() {
  static Calls calls;
  return calls;
}

std::atomic<cudaError_t> g_sticky{cudaSuccess};
thread_local cudaError_t t_last = cudaSuccess;

constexpr int kStreams = 64;  // streams that can be delayed one by one
std::atomic<std::int64_t> g_delay_us[kStreams], g_delay_all_us{0};
std::atomic<std::uint64_t> g_delay_seed{0};
std::atomic<double> g_link_gbps{0};
std::atomic<std::int64_t> g_link_free_ns[2];  // when each direction's link has finished what it was given

}  // namespace

cudaError_t enter(const char* function) {
  Calls& c = calls_state();
  const std::lock_guard lock(c.mutex);
  const auto it = c.count.try_emplace(function, 0).first;
  const std::uint64_t number = ++it->second;
  if (const cudaError_t sticky = g_sticky.load(std::memory_order_relaxed); sticky != cudaSuccess) return answer(sticky);
  const auto [first, last] = c.faults.equal_range(function);
  for (auto f = first; f != last; ++f) {
    if (f->second.at != number) continue;
    const Fault fault = f->second;
    c.faults.erase(f);
    if (fault.sticky) {
      g_sticky.store(fault.error, std::memory_order_relaxed);
      c.failure = std::string("armed fault of ") + function;
    }
    return answer(fault.error);
  }
  return cudaSuccess;
}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) t_last = error;
  return error;
}

void fail_sticky(cudaError_t error, std::string reason) {
  Calls& c = calls_state();
  const std::lock_guard lock(c.mutex);
  if (g_sticky.load(std::memory_order_relaxed) == cudaSuccess) c.failure = std::move(reason);
  g_sticky.store(error, std::memory_order_relaxed);
}

std::string last_failure() {
  Calls& c = calls_state();
  const std::lock_guard lock(c.mutex);
  return c.failure;
}

// ---- control --------------------------------------------------------------------------------------------------------

void fail_call(std::string_view function, std::uint64_t k, cudaError_t error, bool sticky) {
  Calls& c = calls_state();
  const std::lock_guard lock(c.mutex);
  const std::uint64_t done = c.count.try_emplace(std::string(function), 0).first->second;
  c.faults.emplace(std::string(function), Fault{done + k, error, sticky});
}

std::uint64_t calls(std::string_view function) {
  Calls& c = calls_state();
  const std::lock_guard lock(c.mutex);
  const auto it = c.count.find(function);
  return it == c.count.end() ? 0 : it->second;
}

std::uint64_t pinned_allocations() {
  return calls("cudaMallocHost");
}

void delay_stream(int index, std::chrono::microseconds delay, std::uint64_t seed) {
  g_delay_seed.store(seed, std::memory_order_relaxed);
  if (index < 0)
    g_delay_all_us.store(delay.count(), std::memory_order_relaxed);
  else if (index < kStreams)
    g_delay_us[index].store(delay.count(), std::memory_order_relaxed);
}

void set_link_gbps(double gbps) {
  g_link_gbps.store(gbps, std::memory_order_relaxed);
}

void reset_faults() {
  Calls& c = calls_state();
  const std::lock_guard lock(c.mutex);
  c.faults.clear();
  c.failure.clear();
  g_sticky.store(cudaSuccess, std::memory_order_relaxed);
  t_last = cudaSuccess;
  for (auto& delay : g_delay_us) delay.store(0, std::memory_order_relaxed);
  g_delay_all_us.store(0, std::memory_order_relaxed);
  g_link_gbps.store(0, std::memory_order_relaxed);
}

void sleep_if_delayed(int stream_index) {
  std::int64_t us = g_delay_all_us.load(std::memory_order_relaxed);
  if (stream_index < kStreams) us = std::max(us, g_delay_us[stream_index].load(std::memory_order_relaxed));
  if (us <= 0) return;
  if (const std::uint64_t seed = g_delay_seed.load(std::memory_order_relaxed); seed != 0) {
    thread_local std::mt19937_64 random;
    thread_local std::uint64_t seeded = 0;
    if (seeded != seed) random.seed((seeded = seed) + 977 * static_cast<std::uint64_t>(stream_index));
    us = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(us + 1));
  }
  std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void occupy_link(Link link, std::size_t bytes) {
  const double gbps = g_link_gbps.load(std::memory_order_relaxed);
  if (gbps <= 0) return;
  using Clock = std::chrono::steady_clock;
  const auto now = Clock::now().time_since_epoch().count();
  const auto lasts = static_cast<std::int64_t>(static_cast<double>(bytes) / gbps);  // bytes / (GB/s) is ns
  auto& free_at = g_link_free_ns[link == Link::to_device];
  std::int64_t begin = free_at.load(std::memory_order_relaxed), end = 0;
  do end = std::max<std::int64_t>(begin, now) + lasts;
  while (!free_at.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  std::this_thread::sleep_until(Clock::time_point(Clock::duration(end)));
}

namespace {

// The whole of `text` as a number, or std::invalid_argument.
template <class T>
T number(std::string_view text, std::string_view whole) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < T{})
    throw std::invalid_argument("fault '" + std::string(whole) + "': '" + std::string(text) + "' is not a number");
  return value;
}

}  // namespace

void arm_fault(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t colon = std::min(text.find(':', at), text.size());
    parts.push_back(text.substr(at, colon - at));
    at = colon + 1;
  }
  const auto bad = [&](const char* why) { throw std::invalid_argument("fault '" + std::string(text) + "': " + why); };
  if (parts[0] == "link" && parts.size() == 2) return set_link_gbps(number<double>(parts[1], text));
  if (parts[0] == "delay" && parts.size() == 3) {
    std::string_view time = parts[2];
    std::int64_t unit = 0;
    if (time.ends_with("us")) unit = 1;
    if (time.ends_with("ms")) unit = 1000;
    if (unit == 0) bad("a delay ends with ms or us");
    time.remove_suffix(2);
    return delay_stream(number<int>(parts[1], text),
                        std::chrono::microseconds(unit * number<std::int64_t>(time, text)));
  }
  if (!parts[0].starts_with("cu") || parts.size() < 2 || parts.size() > 3)
    bad("write cudaMalloc:3, cudaMemcpyAsync:2:illegal-address, delay:STREAM:5ms or link:GB_PER_S");
  if (parts.size() == 3 && parts[2] != "illegal-address") bad("the third part can only be illegal-address");
  const bool sticky = parts.size() == 3;
  const auto k = number<std::uint64_t>(parts[1], text);
  if (k == 0) bad("calls are counted from 1");
  fail_call(parts[0], k,
            sticky                               ? cudaErrorIllegalAddress
            : parts[0].starts_with("cudaMalloc") ? cudaErrorMemoryAllocation
                                                 : cudaErrorUnknown,
            sticky);
}

}  // namespace spillway::hostcuda

// ---- CUDA's own
// ---------------------------------------------------------------------------------------------------------

using namespace spillway::hostcuda;

cudaError_t cudaGetLastError() {
  if (const cudaError_t sticky = g_sticky.load(std::memory_order_relaxed); sticky != cudaSuccess) return sticky;
  return std::exchange(t_last, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = g_sticky.load(std::memory_order_relaxed);
  return sticky != cudaSuccess ? sticky : t_last;
}

namespace {
struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};
const ErrorText* find_error(cudaError_t error) {
  for (const ErrorText& e : kErrors)
    if (e.error == error) return &e;
  return nullptr;
}
}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* e = find_error(error);
  return e ? e->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* e = find_error(error);
  return e ? e->text : "unrecognized error code";
}
