// Faults planted in kernels are found when their threads are real: by a wrong number in some order of threads, by the
// runner itself, or by a sanitizer. Only the builds with fibers have threads in a block.
#ifdef SPILLWAY_FIBER
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda.h"
#include "runtime/hostcuda/control.h"
#include "test/fixture.h"
#include "test/planted.h"
#include "test/runtime/hostcuda/planted.h"

using namespace spillway;
using test::Planted;

namespace {

// x = 0, 1, 2 ... after the kernel.
std::vector<float> run(Planted fault, unsigned threads) {
  std::vector<float> x(threads);
  for (unsigned i = 0; i < threads; ++i) x[i] = static_cast<float>(i);
  const std::size_t bytes = threads * sizeof(float);
  float* device = nullptr;
  check(cudaMalloc(&device, fault == Planted::out_of_bounds ? bytes - sizeof(float) : bytes));
  const Stream s("planted");
  if (fault != Planted::out_of_bounds) check(cudaMemcpyAsync(device, x.data(), bytes, cudaMemcpyHostToDevice, s.get()));
  test::launch_planted(fault, device, threads, s.get());
  cudaStreamSynchronize(s.get());
  if (fault != Planted::out_of_bounds && hostcuda::last_failure().empty())
    check(cudaMemcpyAsync(x.data(), device, bytes, cudaMemcpyDeviceToHost, s.get()));
  cudaFree(device);
  return x;
}

bool reversed_rightly(Planted fault, unsigned threads) {
  const std::vector<float> x = run(fault, threads);
  for (unsigned i = 0; i < threads; ++i)
    if (x[i] != static_cast<float>(threads - 1 - i)) return false;
  return true;
}

std::string failure(Planted fault) {
  run(fault, 32);
  const std::string why = hostcuda::last_failure();
  hostcuda::reset_faults();
  return why;
}

struct Orders {
  ~Orders() { hostcuda::fiber_options() = {}; }
};

constexpr hostcuda::FiberOrder kOrders[] = {hostcuda::FiberOrder::forward, hostcuda::FiberOrder::reversed,
                                            hostcuda::FiberOrder::shuffled};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(planted_in_kernels, Orders)

BOOST_AUTO_TEST_CASE(the_right_kernel_is_right_in_every_order_and_block_size) {
  for (const auto order : kOrders)
    for (const unsigned threads : {1U, 2U, 16U, 32U, 64U, 256U, 1024U}) {
      hostcuda::fiber_options().order = order;
      BOOST_TEST(reversed_rightly(Planted::none, threads));
    }
}

#if defined(__SANITIZE_THREAD__)
BOOST_AUTO_TEST_CASE(a_missing_barrier_is_a_data_race) {
  test::expect_report("ThreadSanitizer: data race", [] { run(Planted::missing_barrier, 64); });
}
// Also when one thread of the machine runs both, one after the other.
BOOST_AUTO_TEST_CASE(blocks_that_write_the_same_place_are_a_data_race) {
  const int saved = hostcuda::pool_threads();
  hostcuda::set_pool_threads(1);
  // The kernel's race, and not one of the runner's own.
  test::expect_report("SUMMARY: ThreadSanitizer: data race.*blocks_collide_kernel",
                      [] { run(Planted::blocks_collide, 64); });
  hostcuda::set_pool_threads(saved);
}
#else
BOOST_AUTO_TEST_CASE(a_missing_barrier_gives_a_wrong_result_at_more_than_one_thread) {
  for (const auto order : kOrders)
    for (const unsigned threads : {2U, 32U, 256U}) {
      hostcuda::fiber_options().order = order;
      BOOST_TEST(!reversed_rightly(Planted::missing_barrier, threads));
    }
  BOOST_TEST(reversed_rightly(Planted::missing_barrier, 1));  // which is why one block size is not enough
}
#endif

#if defined(__SANITIZE_ADDRESS__)
BOOST_AUTO_TEST_CASE(a_write_out_of_bounds_ends_the_program_with_a_report) {
  test::expect_report("AddressSanitizer: heap-buffer-overflow", [] { run(Planted::out_of_bounds, 32); });
}
BOOST_AUTO_TEST_CASE(a_write_out_of_bounds_of_shared_memory_ends_the_program_with_a_report) {
  test::expect_report("AddressSanitizer: heap-buffer-overflow", [] { run(Planted::shared_out_of_bounds, 32); });
}
#endif

BOOST_AUTO_TEST_CASE(shared_memory_that_nobody_wrote_reads_as_nan) {
  const std::vector<float> x = run(Planted::uninitialized, 32);
  for (int i = 0; i < 32; ++i) BOOST_TEST(std::isnan(x[static_cast<std::size_t>(i)]) == (i >= 16));
}

BOOST_AUTO_TEST_CASE(lanes_that_shuffle_more_often_than_others_still_meet_them) {
  for (const auto order : kOrders) {
    hostcuda::fiber_options().order = order;
    const std::vector<float> x = run(Planted::none_in_shuffles, 64);
    BOOST_TEST(hostcuda::last_failure() == "");
    for (unsigned t = 0; t < 64; ++t) {
      const unsigned from = t ^ 16;
      BOOST_TEST(x[t] == static_cast<float>(from % 32 < 16 ? from + (from ^ 1) : from));
    }
  }
}

BOOST_AUTO_TEST_CASE(barriers_and_shuffles_that_cannot_be_met_are_explained_in_every_order) {
  const std::pair<Planted, const char*> explained[] = {
      {Planted::divergent_barrier, "divergent barrier"},
      {Planted::early_exit, "exited while others wait"},
      {Planted::divergent_shuffle, "divergent shuffle"},
      {Planted::foreign_mask, "is not in its own mask"},
      {Planted::deadlock, "deadlock"},
  };
  for (const auto order : kOrders)
    for (const auto& [fault, words] : explained) {
      hostcuda::fiber_options().order = order;
      const std::string why = failure(fault);
      BOOST_TEST_CONTEXT(why) {
        BOOST_TEST(why.starts_with("block (0, 0, 0): "));
        BOOST_TEST(why.find(words) != std::string::npos);
        BOOST_TEST(why.find("planted.cu:") != std::string::npos);
      }
    }
  BOOST_TEST(reversed_rightly(Planted::none, 64));  // the runner is whole after all that
}

BOOST_AUTO_TEST_SUITE_END()
#endif
