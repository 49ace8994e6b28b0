// The caching allocator's hot path: ns a malloc + free pair when every request is a hit, next to the process's own
// malloc in the same run. Medians over repetitions, because machines are noisy.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "runtime/memory/caching_allocator.h"

namespace {
using namespace spillway::memory;
using Clock = std::chrono::steady_clock;

// Address space that is never touched: only bookkeeping is measured.
class NoDevice final : public DeviceMemory {
 public:
  void* allocate(std::int64_t bytes) override {
    next_ += bytes;
    return reinterpret_cast<void*>(next_ - bytes);
  }
  void release(void*, std::int64_t) noexcept override {}
  void synchronize() override {}
  Info info() const override { return {std::int64_t{1} << 40, std::int64_t{1} << 40}; }

 private:
  std::int64_t next_ = 1 << 21;
};

double median_ns(const std::function<int()>& pairs) {
  constexpr int kRepetitions = 31;
  std::vector<double> ns;
  for (int r = 0; r < kRepetitions; ++r) {
    const auto start = Clock::now();
    const int n = pairs();
    ns.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / n);
  }
  std::nth_element(ns.begin(), ns.begin() + kRepetitions / 2, ns.end());
  return ns[kRepetitions / 2];
}

// Sizes of a training step's tensors, most of them large.
const std::vector<std::int64_t>& step_sizes() {
  static const std::vector<std::int64_t> sizes = [] {
    std::mt19937 random(1);
    const std::int64_t shapes[] = {3072, 3072 * 384, 3072 * 128, 3072 * 1024, 4 * 147456, 64, 2048, 3072 * 4864};
    std::vector<std::int64_t> list;
    for (int i = 0; i < 200; ++i) list.push_back(shapes[random() % std::size(shapes)]);
    return list;
  }();
  return sizes;
}

}  // namespace

int main() {
  NoDevice device;
  CachingAllocator allocator(device);
  const auto take = [&](std::int64_t bytes) {
    return allocator.allocate(bytes, Category::workspace, nullptr, "bench");
  };
  constexpr int kPairs = 20000;

  const auto ping_pong = [&] {
    for (int i = 0; i < kPairs; ++i) take(1 << 20).reset();
    return kPairs;
  };
  // 200 live blocks of a step's sizes; each pair frees one and takes one of the next size.
  std::vector<Allocation> live(step_sizes().size());
  std::size_t turn = 0;
  const auto step = [&] {
    for (int i = 0; i < kPairs; ++i, ++turn) {
      Allocation& slot = live[turn * 7 % live.size()];
      slot.reset();
      slot = take(step_sizes()[turn % step_sizes().size()]);
    }
    return kPairs;
  };
  const auto process_malloc = [&] {
    static std::vector<void*> blocks(step_sizes().size(), nullptr);
    for (int i = 0; i < kPairs; ++i, ++turn) {
      void*& slot = blocks[turn * 7 % blocks.size()];
      std::free(slot);
      slot = std::malloc(static_cast<std::size_t>(step_sizes()[turn % step_sizes().size()]) / 64);
      asm volatile("" : : "r"(slot) : "memory");  // the compiler must not see through the pair
    }
    return kPairs;
  };

  step();  // fills the caches
  constexpr double kLimitNs = 200;
  const double one_size = median_ns(ping_pong), of_step = median_ns(step), process = median_ns(process_malloc);
  fmt::print("ns a malloc + free pair, median of 31 repetitions of {} pairs (limit {:.0f})\n", kPairs, kLimitNs);
  fmt::print("  caching, one size again and again        {:7.1f}\n", one_size);
  fmt::print("  caching, 200 live blocks of a step       {:7.1f}\n", of_step);
  fmt::print("  the process's malloc, sizes / 64, alike  {:7.1f}\n", process);
  return one_size <= kLimitNs && of_step <= kLimitNs ? 0 : 1;
}
