// variants.h - runs a kernel every way that this build can: on the host with 1 and with 2 pool threads; in the fiber
// build at several block sizes, with the threads of a block taken forward, reversed and shuffled; on a GPU once. What
// comes out must be right each time, and where only the order of execution differs it must be the same, bit for bit.
#pragma once
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "test/fixture.h"
#ifdef SPILLWAY_HOST
#include "runtime/hostcuda/control.h"
#endif

namespace spillway::test {

using Outputs = std::vector<std::vector<float>>;
using Run = std::function<Outputs()>;
using Verify = std::function<void(const Outputs&)>;

// Not ==, which takes two equal NaNs for different and the two zeros for equal.
inline bool same_bits(const Outputs& a, const Outputs& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

#ifdef SPILLWAY_FIBER
inline const std::vector<int> kBlockSizes{1, 2, 16, 32, 64, 128, 256};

inline void in_every_variant(const Run& run, const Verify& verify, const std::vector<int>& block_sizes = kBlockSizes) {
  using hostcuda::FiberOptions;
  using hostcuda::FiberOrder;
  const FiberOptions saved = hostcuda::fiber_options();
  for (const int block : block_sizes) {
    Outputs forward;
    for (const FiberOptions& options :
         {FiberOptions{FiberOrder::forward, 1, block}, FiberOptions{FiberOrder::reversed, 1, block},
          FiberOptions{FiberOrder::shuffled, 7, block}, FiberOptions{FiberOrder::shuffled, 8, block}}) {
      BOOST_TEST_CONTEXT("block of " << block << ", order " << static_cast<int>(options.order)) {
        hostcuda::fiber_options() = options;
        const Outputs outputs = run();
        verify(outputs);
        if (options.order == FiberOrder::forward)
          forward = outputs;
        else
          BOOST_TEST(same_bits(outputs, forward), "the bits depend on the order of the threads");
      }
    }
  }
  hostcuda::fiber_options() = saved;
}
#elif defined(SPILLWAY_HOST)
inline void in_every_variant(const Run& run, const Verify& verify, const std::vector<int>& = {}) {
  const int saved = hostcuda::pool_threads();
  hostcuda::set_pool_threads(1);
  const Outputs one = run();
  hostcuda::set_pool_threads(2);
  const Outputs two = run();
  hostcuda::set_pool_threads(saved);
  verify(one);
  BOOST_TEST(same_bits(one, two), "the bits depend on the number of pool threads");
}
#else
inline void in_every_variant(const Run& run, const Verify& verify, const std::vector<int>& = {}) {
  const Outputs once = run();
  verify(once);
  BOOST_TEST(same_bits(once, run()), "the bits differ from run to run");
}
#endif

}  // namespace spillway::test
