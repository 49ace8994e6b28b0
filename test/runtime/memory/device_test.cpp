// What stands on the real runtime calls: the device behind the allocator, poisoning, the host arena, CUDA's checks.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/pinned_arena.h"
#include "runtime/tensor.h"
#include "test/device_controls.h"
#include "test/fixture.h"

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
  Tensor<float> before(allocator, 128, Category::workspace, stream.get(), "before");
  Tensor<float> freed(allocator, 1000, Category::workspace, stream.get(), "freed");  // 4000 of 4096 bytes
  Tensor<float> after(allocator, 128, Category::workspace, stream.get(), "after");
  float* const first = before.data();
  BOOST_REQUIRE(after.data() == first + 128 + 1024);
  std::vector<float> values(128 + 1024 + 128, 1.F);
  const std::size_t bytes = values.size() * sizeof(float);
  check(cudaMemcpyAsync(first, values.data(), bytes, cudaMemcpyHostToDevice, stream.get()));
  freed.reset();
  check(cudaMemcpyAsync(values.data(), first, bytes, cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  for (std::size_t i = 0; i < values.size(); ++i)
    BOOST_TEST_CONTEXT("float " << i) BOOST_TEST(std::isnan(values[i]) == (i >= 128 && i < 128 + 1024));
}

BOOST_AUTO_TEST_CASE(an_allocator_that_is_not_asked_to_poison_leaves_freed_blocks_alone) {
  CudaDeviceMemory device;
  CachingAllocator allocator(device);
  const Stream stream("test");
  Tensor<float> t(allocator, 1, Category::workspace, stream.get(), "t");
  float* const p = t.data();
  float value = 1.F;
  check(cudaMemcpyAsync(p, &value, sizeof value, cudaMemcpyHostToDevice, stream.get()));
  t.reset();
  value = 0.F;
  check(cudaMemcpyAsync(&value, p, sizeof value, cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  BOOST_TEST(value == 1.F);
}

BOOST_AUTO_TEST_CASE(pages_are_memory_only_while_they_are_mapped_and_cost_the_cap) {
  CudaDeviceMemory device;
  constexpr std::int64_t kPage = DeviceMemory::kPage;
  CappedMemory capped(device, 2 * kPage);
  char* const addresses = static_cast<char*>(capped.reserve_addresses(4 * kPage));
  BOOST_REQUIRE(capped.map_page(addresses));
  BOOST_REQUIRE(capped.map_page(addresses + kPage));
  BOOST_TEST(!capped.map_page(addresses + 2 * kPage));  // the cap
  BOOST_TEST(capped.info().free_bytes == 0);
  std::vector<char> sent(2 * kPage, 7), received(2 * kPage);  // two pages are one stretch of memory
  check(cudaMemcpy(addresses, sent.data(), sent.size(), cudaMemcpyHostToDevice));
  check(cudaMemcpy(received.data(), addresses, sent.size(), cudaMemcpyDeviceToHost));
  BOOST_TEST((sent == received));
  capped.unmap_page(addresses);
  BOOST_TEST(capped.map_page(addresses + 2 * kPage));
  capped.unmap_page(addresses + kPage);
  capped.unmap_page(addresses + 2 * kPage);
  capped.release_addresses(addresses, 4 * kPage);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(a_capped_pool_refuses_what_is_too_much_and_keeps_nothing_of_it) {
  CudaDeviceMemory device;
  CappedMemory capped(device, std::int64_t{64} << 20);
  const Stream stream("test");
  void* const first = capped.allocate_async(std::int64_t{40} << 20, stream.get());
  BOOST_REQUIRE(first);
  BOOST_TEST(!capped.allocate_async(std::int64_t{40} << 20, stream.get()));
  BOOST_TEST(capped.pool_reserved() <= std::int64_t{64} << 20);
  BOOST_TEST(!capped.allocate(std::int64_t{40} << 20));  // the pool counts under the same cap
  capped.release_async(first, stream.get());
  stream.synchronize();
  void* const again = capped.allocate_async(std::int64_t{60} << 20, stream.get());
  BOOST_TEST(again);
  capped.release_async(again, stream.get());
  capped.trim_pool();
  BOOST_TEST(capped.pool_reserved() == 0);
  BOOST_TEST(capped.info().free_bytes == std::int64_t{64} << 20);
}

BOOST_AUTO_TEST_CASE(a_tensor_whose_bytes_overflow_is_refused) {
  CudaDeviceMemory device;
  CachingAllocator allocator(device);
  BOOST_CHECK_THROW(Tensor<float>(allocator, std::int64_t{1} << 62, Category::workspace, nullptr, "huge"), Error);
  BOOST_CHECK_THROW(Tensor<float>(allocator, -1, Category::workspace, nullptr, "negative"), Error);
  BOOST_TEST(allocator.stats().reserved == 0);
}

BOOST_AUTO_TEST_CASE(a_tensor_that_moves_leaves_an_empty_one_behind) {
  CudaDeviceMemory device;
  CachingAllocator allocator(device);
  Tensor<float> a(allocator, 10, Category::workspace, nullptr, "a"), b = std::move(a);
  BOOST_TEST((a.size() == 0 && a.bytes() == 0 && a.data() == nullptr && !a));
  BOOST_TEST((b.size() == 10 && b.bytes() == 40));
  a = std::move(b);
  BOOST_TEST((b.size() == 0 && a.size() == 10));
  a.reset();
  BOOST_TEST((a.size() == 0 && allocator.stats().allocated == 0));
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

BOOST_AUTO_TEST_CASE(an_arena_whose_slots_overflow_is_refused_before_it_asks_the_host) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  BOOST_CHECK_THROW(PinnedArena(HostMemory::pageable, {kHuge}), Error);
  BOOST_CHECK_THROW(PinnedArena(HostMemory::pageable, {kHuge / 2, kHuge / 2, kHuge / 2}), Error);
}

BOOST_AUTO_TEST_CASE(a_failed_call_names_its_place_its_error_and_what_it_means) {
  const std::string message = message_of([] { check(cudaErrorInvalidValue); });
  BOOST_TEST_CONTEXT(message) {
    BOOST_TEST(message.find("CUDA at test/runtime/memory/device_test.cpp:") == 0U);
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

BOOST_AUTO_TEST_CASE(a_failed_cublas_call_names_its_place_and_its_status) {
  const std::string message = message_of([] { check(CUBLAS_STATUS_INVALID_VALUE); });
  BOOST_TEST_CONTEXT(message) {
    BOOST_TEST(message.find("cuBLAS at test/runtime/memory/device_test.cpp:") == 0U);
    BOOST_TEST(message.find("CUBLAS_STATUS_INVALID_VALUE") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(an_error_that_was_thrown_is_not_found_again_by_the_next_check) {
  void* p = nullptr;
  BOOST_CHECK_THROW(check(cudaMalloc(&p, std::size_t{1} << 60)), CudaError);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(the_device_is_described) {
  const DeviceInfo info = require_device();
  BOOST_TEST(!info.name.empty());
  BOOST_TEST(info.memory_bytes > 0);
  BOOST_TEST(info.is_host == test::kHostDevice);
  if (!info.is_host) BOOST_TEST(info.runtime_version >= 12040);
}

BOOST_AUTO_TEST_CASE(events_order_and_time_streams_and_both_move) {
  Stream first("first");
  const Stream stream(std::move(first));
  BOOST_TEST((first.get() == nullptr && stream.get() != nullptr));
  BOOST_TEST(stream.name() == "first");
  Event start(Event::Timing::on), other(Event::Timing::on);
  const Event stop(std::move(other));
  BOOST_TEST(other.get() == nullptr);
  start.record(stream.get());
  check(cudaEventRecord(stop.get(), stream.get()));
  stop.synchronize();
  BOOST_TEST(elapsed_ms(start, stop) >= 0.F);
}

#ifdef SPILLWAY_HOST
BOOST_AUTO_TEST_CASE(an_owner_destroys_its_stream_or_event_once_however_it_moved) {
  const std::uint64_t streams = hostcuda::calls("cudaStreamDestroy"), events = hostcuda::calls("cudaEventDestroy");
  {
    Stream a("a");
    const Stream b(std::move(a));
    Event c, d;
    c = std::move(d);
    const Event e(std::move(c));
  }
  BOOST_TEST(hostcuda::calls("cudaStreamDestroy") - streams == 1U);
  BOOST_TEST(hostcuda::calls("cudaEventDestroy") - events == 2U);
}

BOOST_AUTO_TEST_CASE(a_machine_without_a_driver_is_refused_in_one_line) {
  hostcuda::fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  const std::string message = message_of([] { require_device(); });
  BOOST_TEST(message.find("no GPU answers (cudaErrorInsufficientDriver") == 0U);
  BOOST_TEST(message.find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_device_failure_other_than_memory_is_thrown_as_it_is) {
  CudaDeviceMemory device;
  CachingAllocator allocator(device);
  hostcuda::fail_call("cudaMalloc", 1, cudaErrorInvalidValue);
  BOOST_CHECK_THROW(allocator.allocate(1, Category::workspace, nullptr, "a"), CudaError);
  allocator.check_invariants();
  BOOST_TEST(allocator.stats().retries == 0);
}

BOOST_AUTO_TEST_CASE(the_device_budget_is_handed_out_to_the_byte) {
  const std::int64_t before = hostcuda::device_memory();
  hostcuda::set_device_memory(44 << 20);
  {
    CudaDeviceMemory device;
    CachingAllocator allocator(device);
    const Allocation a = allocator.allocate(24 << 20, Category::workspace, nullptr, "a");
    const Allocation b = allocator.allocate(20 << 20, Category::workspace, nullptr, "b");
    BOOST_CHECK_THROW(allocator.allocate(1, Category::workspace, nullptr, "c"), OutOfMemory);
    BOOST_TEST(cudaGetLastError() == cudaSuccess);  // out of memory is answered, not left behind
  }
  hostcuda::set_device_memory(before);
}

BOOST_AUTO_TEST_CASE(a_page_that_cannot_be_mapped_leaves_its_memory_and_its_address_free) {
  CudaDeviceMemory device;
  void* const page = device.reserve_addresses(DeviceMemory::kPage);
  const std::int64_t before = device.info().free_bytes;
  for (const char* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    hostcuda::fail_call(call, 1, cudaErrorInvalidValue);
    BOOST_CHECK_THROW(device.map_page(page), CudaError);
    BOOST_TEST(device.info().free_bytes == before);
  }
  hostcuda::fail_call("cuMemCreate", 1, cudaErrorMemoryAllocation);
  BOOST_TEST(!device.map_page(page));  // out of memory is an answer
  BOOST_REQUIRE(device.map_page(page));
  device.unmap_page(page);
  device.release_addresses(page, DeviceMemory::kPage);
  BOOST_TEST(device.info().free_bytes == before);
}

BOOST_AUTO_TEST_CASE(a_pool_that_cannot_be_set_up_is_not_kept) {
  const std::uint64_t destroyed = hostcuda::calls("cudaMemPoolDestroy");
  CudaDeviceMemory device;
  hostcuda::fail_call("cudaMemPoolSetAttribute", 1, cudaErrorInvalidValue);
  BOOST_CHECK_THROW(device.allocate_async(512, nullptr), CudaError);
  BOOST_TEST(hostcuda::calls("cudaMemPoolDestroy") - destroyed == 1U);
  void* const memory = device.allocate_async(512, nullptr);
  BOOST_TEST(memory);
  device.release_async(memory, nullptr);
}

BOOST_AUTO_TEST_CASE(host_memory_that_cannot_be_had_is_one_line_with_its_bytes) {
  hostcuda::fail_call("cudaMallocHost", 1, cudaErrorMemoryAllocation);
  const std::string message = message_of([] { PinnedArena(HostMemory::pinned, {4096}); });
  BOOST_TEST(message.find("4096 bytes") != std::string::npos);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
  hostcuda::fail_call("cudaMallocHost", 1, cudaErrorInvalidValue);
  BOOST_CHECK_THROW(PinnedArena(HostMemory::pinned, {4096}), CudaError);  // any other failure is itself
}
#endif

BOOST_AUTO_TEST_SUITE_END()
