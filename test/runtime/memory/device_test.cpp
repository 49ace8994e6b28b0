// What stands on the real runtime calls: the device behind the allocator, poisoning, the host arena, CUDA's checks.
#include <cstring>
#include <functional>
#include <string>

#include "runtime/cuda.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/pinned_arena.h"
#include "runtime/tensor.h"
#include "test/fixture.h"
#ifdef SPILLWAY_HOST
#include "runtime/hostcuda/control.h"
#endif

using namespace spillway;
using namespace spillway::memory;

namespace {
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
}  // namespace

BOOST_AUTO_TEST_SUITE(device)

BOOST_AUTO_TEST_CASE(a_poisoned_allocator_fills_freed_blocks_with_nan) {
  CudaDeviceMemory device;
  CachingAllocator allocator(device, {0, true});
  const Stream stream("test");
  Tensor<float> t(allocator, 1000, Category::workspace, stream.get(), "t");
  const float one = 1.f;
  float found = 0;
  float* p = t.data();
  check(cudaMemcpyAsync(p, &one, sizeof one, cudaMemcpyHostToDevice, stream.get()));
  t.reset();
  check(cudaMemcpyAsync(&found, p, sizeof found, cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  BOOST_TEST(found != found);
}

BOOST_AUTO_TEST_CASE(a_tensor_whose_bytes_overflow_is_refused) {
  CudaDeviceMemory device;
  CachingAllocator allocator(device);
  BOOST_CHECK_THROW(Tensor<float>(allocator, std::int64_t{1} << 62, Category::workspace, nullptr, "huge"), Error);
}

BOOST_AUTO_TEST_CASE(an_arena_has_aligned_slots_that_do_not_overlap) {
  for (const HostMemory kind : {HostMemory::pinned, HostMemory::pageable}) {
    const PinnedArena arena(kind, {1, 512, 513, 100000});
    BOOST_TEST(arena.bytes() == 512 + 512 + 1024 + 100352);
    for (std::size_t i = 0; i < arena.slots(); ++i) {
      BOOST_TEST(reinterpret_cast<std::uintptr_t>(arena.slot(i)) % 512 == 0U);
      std::memset(arena.slot(i), static_cast<int>(i), static_cast<std::size_t>(arena.slot_bytes(i)));
    }
    for (std::size_t i = 0; i < arena.slots(); ++i)
      BOOST_TEST(static_cast<char*>(arena.slot(i))[0] == static_cast<char>(i));
  }
  BOOST_TEST(PinnedArena(HostMemory::pinned, {}).bytes() == 0);
  BOOST_CHECK_THROW(PinnedArena(HostMemory::pinned, {0}), Error);
}

BOOST_AUTO_TEST_CASE(a_failed_call_names_its_place_its_error_and_what_it_means) {
  const std::string message = message_of([] { check(cudaErrorInvalidValue); });
  BOOST_TEST_CONTEXT(message) {
    BOOST_TEST(message.find("device_test.cpp:") != std::string::npos);
    BOOST_TEST(message.find("cudaErrorInvalidValue: invalid argument") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(no_driver_and_no_device_read_alike_in_one_line) {
  for (const cudaError_t error : {cudaErrorInsufficientDriver, cudaErrorNoDevice}) {
    const std::string message = message_of([&] { check(error); });
    BOOST_TEST(message.find("no GPU answers") == 0U);
    BOOST_TEST(message.find("DEVICE=host") != std::string::npos);
    BOOST_TEST(message.find('\n') == std::string::npos);
  }
}

#ifdef SPILLWAY_HOST
BOOST_AUTO_TEST_CASE(the_device_budget_is_handed_out_to_the_byte) {
  const std::int64_t before = hostcuda::device_memory();
  hostcuda::set_device_memory(44 << 20);
  {
    CudaDeviceMemory device;
    CachingAllocator allocator(device);
    const Allocation a = allocator.allocate(24 << 20, Category::workspace, nullptr, "a");
    const Allocation b = allocator.allocate(20 << 20, Category::workspace, nullptr, "b");
    BOOST_CHECK_THROW(allocator.allocate(1, Category::workspace, nullptr, "c"), OutOfMemory);
    BOOST_TEST(cudaPeekAtLastError() == cudaSuccess);  // out of memory is answered, not left behind
  }
  hostcuda::set_device_memory(before);
}

BOOST_AUTO_TEST_CASE(host_memory_that_cannot_be_had_is_one_line_with_its_bytes) {
  hostcuda::fail_call("cudaMallocHost", 1, cudaErrorMemoryAllocation);
  const std::string message = message_of([] { PinnedArena(HostMemory::pinned, {4096}); });
  BOOST_TEST(message.find("4096 bytes") != std::string::npos);
  BOOST_TEST(cudaPeekAtLastError() == cudaSuccess);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
