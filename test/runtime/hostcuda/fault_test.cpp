// Faults on demand: the k-th call fails, stickily or not; what is lost with the context; what the command line may arm.
#include <stdexcept>
#include <string>

#include "kernels/launch.h"
#include "test/runtime/hostcuda/device_fixture.h"
#include "test/runtime/hostcuda/planted.h"

using namespace spillway;
using test::run_on;

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
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
  cudaFree(p[0]);
  cudaFree(p[2]);
}

BOOST_AUTO_TEST_CASE(an_error_is_the_last_one_of_the_thread_that_made_the_call) {
  hostcuda::fail_call("cudaFree", 1, cudaErrorUnknown);
  std::thread([] { BOOST_TEST(cudaFree(nullptr) == cudaErrorUnknown); }).join();
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(a_sticky_error_answers_every_later_call_of_every_thread) {
  const Stream s("s");
  hostcuda::fail_call("cudaMemsetAsync", 1, cudaErrorIllegalAddress, true);
  void* p = nullptr;
  check(cudaMalloc(&p, 8));
  BOOST_TEST(cudaMemsetAsync(p, 0, 8, s.get()) == cudaErrorIllegalAddress);
  BOOST_TEST(cudaGetLastError() == cudaErrorIllegalAddress);
  BOOST_TEST(cudaGetLastError() == cudaErrorIllegalAddress);
  BOOST_TEST(cudaStreamSynchronize(s.get()) == cudaErrorIllegalAddress);
  BOOST_TEST(hostcuda::last_failure() == "armed fault of cudaMemsetAsync");
  std::thread([] {
    void* q = nullptr;
    BOOST_TEST(cudaMalloc(&q, 8) == cudaErrorIllegalAddress);
    BOOST_TEST(cudaGetLastError() == cudaErrorIllegalAddress);
  }).join();
  BOOST_TEST(cudaFree(p) == cudaErrorIllegalAddress);  // and gives it back all the same: no leak
  hostcuda::reset_faults();
  BOOST_TEST(cudaFree(p) == cudaErrorInvalidValue);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(a_kernel_that_throws_loses_the_context_and_its_reason_is_kept) {
  const Stream s("s");
  bool ran = false;
  Event after;
  {
    test::Gate gate(s);
    run_on(s, [] { throw std::runtime_error("planted"); });
    run_on(s, [&] { ran = true; });
    after.record(s.get());
    gate.open = true;
    BOOST_TEST(cudaStreamSynchronize(s.get()) == cudaErrorLaunchFailure);
  }
  BOOST_TEST(hostcuda::last_failure() == "planted");
  BOOST_TEST(!ran);                                                         // nothing that was queued behind it
  BOOST_TEST(cudaEventSynchronize(after.get()) == cudaErrorLaunchFailure);  // and nobody hangs
  BOOST_TEST(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  BOOST_CHECK_EXCEPTION(check(cudaDeviceSynchronize()), CudaError, [](const CudaError& e) {
    return std::string(e.what()).ends_with("unspecified launch failure: planted");
  });
}

BOOST_AUTO_TEST_CASE(a_copy_that_waits_tells_the_failure_it_waited_through) {
  const test::DeviceBytes d(4);
  char host[4];
  check(hostcuda::enqueue("cudaLaunchKernel", "task", nullptr, [] { throw std::runtime_error("planted"); }));
  BOOST_TEST(cudaMemcpy(host, d.data, 4, cudaMemcpyDeviceToHost) == cudaErrorLaunchFailure);
}

BOOST_AUTO_TEST_CASE(a_launch_that_cannot_be_is_refused_and_named) {
  const Stream s("s");
  for (const unsigned threads : {0U, 48U, 2048U})
    BOOST_CHECK_EXCEPTION(test::launch_planted(test::Planted::none, nullptr, threads, s.get()), kernels::LaunchError,
                          [](const kernels::LaunchError& e) {
                            return e.error() == cudaErrorInvalidConfiguration &&
                                   e.what() ==
                                       std::string(
                                           "launching planted: cudaErrorInvalidConfiguration, invalid configuration "
                                           "argument");
                          });
  BOOST_TEST(cudaGetLastError() == cudaSuccess);  // the exception has told it
  hostcuda::fail_call("cudaLaunchKernel", 1, cudaErrorLaunchFailure);
  BOOST_CHECK_THROW(test::launch_planted(test::Planted::none, nullptr, 1, s.get()), kernels::LaunchError);
}

BOOST_AUTO_TEST_CASE(calls_are_counted_by_name_and_each_as_itself) {
  const char* names[] = {"cudaMemcpy", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaFree"};
  std::vector<std::uint64_t> before;
  for (const char* name : names) before.push_back(hostcuda::calls(name));
  {
    const test::DeviceBytes d(4);
    const char host[4] = {};
    check(cudaMemcpy(d.data, host, 4, cudaMemcpyHostToDevice));
  }
  const std::uint64_t expected[] = {1, 0, 0, 0, 1};
  for (std::size_t i = 0; i < std::size(names); ++i)
    BOOST_TEST(hostcuda::calls(names[i]) - before[i] == expected[i], names[i]);
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
  for (const char* good : {"delay:1:5ms", "delay:1:50us", "link:2.5", "link:0", "cublasGemmEx:7", "cudaLaunchKernel:1"})
    BOOST_CHECK_NO_THROW(hostcuda::arm_fault(good));
  for (const char* bad : {"",
                          "nonsense",
                          "cudaMalloc",
                          "cudaMalloc:0",
                          "cudaMalloc:x",
                          "cudaMalloc:-1",
                          "cudaMalloc:1:2",
                          "cudaMalloc:1:2:3",
                          "cudaMalocc:1",
                          "cudaMalloc:99999999999999999999",
                          "delay:1",
                          "delay:1:5",
                          "delay:1:ms",
                          "delay:1:s",
                          "delay:x:5ms",
                          "delay:-1:5ms",
                          "delay:64:5ms",
                          "delay:1:99999999999ms",
                          "link:",
                          "link:-1",
                          "link:fast",
                          "link:nan",
                          "link:inf"})
    BOOST_TEST_CONTEXT(bad)
  BOOST_CHECK_EXCEPTION(hostcuda::arm_fault(bad), std::invalid_argument, [&](const std::invalid_argument& e) {
    return std::string(e.what()).starts_with("fault '" + std::string(bad) + "': ") && !std::strchr(e.what(), '\n');
  });
}

BOOST_AUTO_TEST_CASE(errors_have_cudas_names_and_words) {
  BOOST_TEST(cudaGetErrorName(cudaErrorMemoryAllocation) == std::string("cudaErrorMemoryAllocation"));
  BOOST_TEST(cudaGetErrorString(cudaErrorMemoryAllocation) == std::string("out of memory"));
  BOOST_TEST(cudaGetErrorString(cudaErrorLaunchFailure) == std::string("unspecified launch failure"));
  BOOST_TEST(cudaGetErrorName(static_cast<cudaError_t>(998)) == std::string("unrecognized error code"));
  BOOST_TEST(cudaGetErrorString(static_cast<cudaError_t>(998)) == std::string("unrecognized error code"));
}

BOOST_AUTO_TEST_SUITE_END()
