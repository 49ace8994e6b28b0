// Faults on demand: the k-th call fails, stickily or not; and what the command line may arm.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/cuda.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/pool.h"
#include "runtime/hostcuda/stream.h"
#include "test/fixture.h"

using namespace spillway;

namespace {
struct Clean {
  ~Clean() { hostcuda::reset_faults(); }
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(faults, Clean)

BOOST_AUTO_TEST_CASE(the_kth_call_fails_and_only_that_one) {
  hostcuda::fail_call("cudaMalloc", 2, cudaErrorMemoryAllocation);
  void* p[3] = {};
  BOOST_TEST(cudaMalloc(&p[0], 8) == cudaSuccess);
  BOOST_TEST(cudaMalloc(&p[1], 8) == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaMalloc(&p[2], 8) == cudaSuccess);
  BOOST_TEST(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
  cudaFree(p[0]);
  cudaFree(p[2]);
}

BOOST_AUTO_TEST_CASE(a_sticky_error_answers_every_later_call) {
  const Stream s("s");
  hostcuda::fail_call("cudaMemsetAsync", 1, cudaErrorIllegalAddress, true);
  void* p = nullptr;
  check(cudaMalloc(&p, 8));
  BOOST_TEST(cudaMemsetAsync(p, 0, 8, s.get()) == cudaErrorIllegalAddress);
  BOOST_TEST(cudaGetLastError() == cudaErrorIllegalAddress);
  BOOST_TEST(cudaGetLastError() == cudaErrorIllegalAddress);
  BOOST_TEST(cudaStreamSynchronize(s.get()) == cudaErrorIllegalAddress);
  void* q = nullptr;
  BOOST_TEST(cudaMalloc(&q, 8) == cudaErrorIllegalAddress);
  hostcuda::reset_faults();
  BOOST_TEST(cudaFree(p) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_throws_is_a_launch_failure_with_its_reason_kept) {
  const Stream s("s");
  check(hostcuda::enqueue("cudaLaunchKernel", s.get(), [] { throw std::runtime_error("planted"); }));
  BOOST_TEST(cudaStreamSynchronize(s.get()) == cudaErrorLaunchFailure);
  BOOST_TEST(hostcuda::last_failure() == "planted");
  BOOST_TEST(cudaStreamSynchronize(s.get()) == cudaErrorLaunchFailure);
}

BOOST_AUTO_TEST_CASE(calls_are_counted_by_name) {
  const std::uint64_t before = hostcuda::calls("cudaFree");
  cudaFree(nullptr);
  cudaFree(nullptr);
  BOOST_TEST(hostcuda::calls("cudaFree") == before + 2);
  BOOST_TEST(hostcuda::calls("cudaNeverCalled") == 0U);
}

BOOST_AUTO_TEST_CASE(the_command_line_arms_calls_delays_and_the_link) {
  hostcuda::arm_fault("cudaMalloc:1");
  void* p = nullptr;
  BOOST_TEST(cudaMalloc(&p, 8) == cudaErrorMemoryAllocation);
  cudaGetLastError();
  hostcuda::arm_fault("cudaFree:1:illegal-address");
  BOOST_TEST(cudaFree(nullptr) == cudaErrorIllegalAddress);
  hostcuda::reset_faults();
  hostcuda::arm_fault("delay:1:5ms");
  hostcuda::arm_fault("delay:1:50us");
  hostcuda::arm_fault("link:2.5");
  for (const char* bad :
       {"", "nonsense", "cudaMalloc", "cudaMalloc:0", "cudaMalloc:x", "cudaMalloc:-1", "cudaMalloc:1:2", "delay:1",
        "delay:1:5", "delay:x:5ms", "link:", "link:-1", "link:fast", "cudaMalloc:1:2:3"})
    BOOST_TEST_CONTEXT(bad) BOOST_CHECK_THROW(hostcuda::arm_fault(bad), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(errors_have_cudas_names_and_words) {
  BOOST_TEST(cudaGetErrorName(cudaErrorMemoryAllocation) == std::string("cudaErrorMemoryAllocation"));
  BOOST_TEST(cudaGetErrorString(cudaErrorMemoryAllocation) == std::string("out of memory"));
  BOOST_TEST(cudaGetErrorName(static_cast<cudaError_t>(12345)) == std::string("unrecognized error code"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(pool)

BOOST_AUTO_TEST_CASE(every_index_runs_once_for_any_number_of_threads) {
  for (const int threads : {1, 2, 3, 5}) {
    hostcuda::set_pool_threads(threads);
    BOOST_TEST(hostcuda::pool_threads() == threads);
    for (const std::size_t chunk : {1, 7, 1000}) {
      std::vector<int> runs(1234, 0);
      hostcuda::parallel_for(runs.size(), chunk, [&](std::size_t i) { ++runs[i]; });
      BOOST_TEST(std::count(runs.begin(), runs.end(), 1) == 1234);
    }
  }
  hostcuda::set_pool_threads(2);
}

BOOST_AUTO_TEST_CASE(the_first_exception_reaches_the_caller_and_the_pool_goes_on) {
  hostcuda::set_pool_threads(3);
  for (int round = 0; round < 20; ++round)
    BOOST_CHECK_THROW(hostcuda::parallel_for(100, 1,
                                             [](std::size_t i) {
                                               if (i % 10 == 3) throw std::runtime_error("planted");
                                             }),
                      std::runtime_error);
  int sum = 0;
  hostcuda::parallel_for(1, 1, [&](std::size_t) { sum = 1; });
  BOOST_TEST(sum == 1);
  hostcuda::set_pool_threads(2);
}

BOOST_AUTO_TEST_SUITE_END()
