// Device memory is a budget, and copies have CUDA's semantics: pinned ones are asynchronous, pageable ones stage or
// block.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "test/runtime/hostcuda/device_fixture.h"

using namespace spillway;
using test::DeviceBytes;
using test::Gate;
using test::PinnedBytes;

namespace {

struct Budget {
  explicit Budget(std::int64_t bytes) : before(hostcuda::device_memory()) { hostcuda::set_device_memory(bytes); }
  ~Budget() { hostcuda::set_device_memory(before); }
  std::int64_t before;
};

struct BooksOnly {
  BooksOnly() { hostcuda::set_books_only(true); }
  ~BooksOnly() { hostcuda::set_books_only(false); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(device_memory)

BOOST_AUTO_TEST_CASE(the_budget_is_handed_out_to_the_byte_and_then_memory_is_out) {
  const Budget budget(1 << 20);
  void *a = nullptr, *b = nullptr, *c = nullptr;
  BOOST_TEST(cudaMalloc(&a, 1 << 19) == cudaSuccess);
  BOOST_TEST(cudaMalloc(&b, (1 << 19) + 1) == cudaErrorMemoryAllocation);
  BOOST_TEST(b == nullptr);
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaMalloc(&c, 1 << 19) == cudaSuccess);
  std::size_t free_bytes = 1, total = 0;
  check(cudaMemGetInfo(&free_bytes, &total));
  BOOST_TEST(free_bytes == 0U);
  BOOST_TEST(total == 1U << 20);
  cudaFree(a);
  cudaFree(c);
  check(cudaMemGetInfo(&free_bytes, &total));
  BOOST_TEST(free_bytes == 1U << 20);
}

BOOST_AUTO_TEST_CASE(running_out_of_memory_is_forgotten_once_it_is_told) {
  const Budget budget(1000);
  void* p = nullptr;
  BOOST_TEST(cudaMalloc(&p, 1001) == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaMalloc(&p, SIZE_MAX) == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaMalloc(&p, 1000) == cudaSuccess);
  BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess);
  BOOST_TEST(cudaFree(p) == cudaSuccess);
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);  // the last error, although calls succeeded since
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(a_budget_below_what_is_in_use_leaves_nothing_to_hand_out) {
  const DeviceBytes d(100);
  const Budget budget(10);
  std::size_t free_bytes = 1, total = 0;
  check(cudaMemGetInfo(&free_bytes, &total));
  BOOST_TEST(free_bytes == 0U);
  BOOST_TEST(total == 10U);
  void* p = nullptr;
  BOOST_TEST(cudaMalloc(&p, 1) == cudaErrorMemoryAllocation);
  cudaGetLastError();
  BOOST_CHECK_THROW(hostcuda::set_device_memory(-1), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(allocations_begin_at_multiples_of_512_and_an_empty_one_is_null) {
  for (const std::size_t bytes : {1U, 513U, 1U << 20, (5U << 20) + 1}) {
    const DeviceBytes d(bytes);
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(d.data) % 512 == 0U);
  }
  const DeviceBytes nothing(0);
  BOOST_TEST(!nothing.data);
}

BOOST_AUTO_TEST_CASE(memory_is_freed_when_the_streams_are_done_with_it) {
  const Stream s("s");
  char* p = nullptr;
  check(cudaMalloc(&p, 1000));
  hostcuda::delay_stream(0, std::chrono::milliseconds(5));
  check(cudaMemsetAsync(p, 1, 1000, s.get()));
  check(cudaFree(p));  // AddressSanitizer would see the memset come too late
  hostcuda::reset_faults();
}

BOOST_AUTO_TEST_CASE(books_only_memory_costs_nothing_and_nothing_runs) {
  const Budget budget(std::int64_t{1} << 39);
  const BooksOnly books;
  const Stream s("s");
  char* huge = nullptr;
  BOOST_TEST(cudaMalloc(&huge, std::size_t{1} << 38) == cudaSuccess);
  BOOST_TEST(cudaMemsetAsync(huge, 1, std::size_t{1} << 38, s.get()) == cudaSuccess);
  bool ran = false;
  BOOST_TEST(hostcuda::enqueue("cudaLaunchKernel", "task", s.get(), [&] { ran = true; }) == cudaSuccess);
  s.synchronize();
  BOOST_TEST(!ran);
  void* more = nullptr;
  BOOST_TEST(cudaMalloc(&more, (std::size_t{1} << 38) + 1) == cudaErrorMemoryAllocation);
  cudaGetLastError();
  BOOST_TEST(cudaFree(huge) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(in_books_only_mode_the_hosts_own_memory_and_callbacks_are_real) {
  const BooksOnly books;
  const Stream s("s");
  const DeviceBytes d(100);
  const PinnedBytes pinned(100);
  std::memset(pinned.data, 7, 100);
  check(cudaMemcpyAsync(d.data, pinned.data, 100, cudaMemcpyHostToDevice, s.get()));
  std::vector<char> back(100, 1);
  check(cudaMemcpyAsync(back.data(), d.data, 100, cudaMemcpyDeviceToHost, s.get()));
  BOOST_TEST(std::count(back.begin(), back.end(), 0) == 100);  // not what happened to be there
  bool called = false;
  check(cudaLaunchHostFunc(
      s.get(), [](void* p) { *static_cast<bool*>(p) = true; }, &called));
  s.synchronize();
  BOOST_TEST(called);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(copies)

BOOST_AUTO_TEST_CASE(a_copy_from_pinned_memory_reads_it_when_the_stream_gets_there) {
  const Stream s("s");
  const DeviceBytes d(1);
  const PinnedBytes source(1), back(1);
  source.data[0] = 1;
  Gate gate(s);
  check(cudaMemcpyAsync(d.data, source.data, 1, cudaMemcpyHostToDevice, s.get()));
  source.data[0] = 2;  // the host must not do this; it shows that the copy had not happened
  check(cudaMemcpyAsync(back.data, d.data, 1, cudaMemcpyDeviceToHost, s.get()));
  gate.open = true;
  s.synchronize();
  BOOST_TEST(static_cast<int>(back.data[0]) == 2);
}

BOOST_AUTO_TEST_CASE(a_copy_from_pageable_memory_is_staged_before_the_call_returns) {
  const Stream s("s");
  const DeviceBytes d(1);
  const PinnedBytes back(1);
  std::vector<char> source(1, 1);
  Gate gate(s);
  check(cudaMemcpyAsync(d.data, source.data(), 1, cudaMemcpyHostToDevice, s.get()));
  source[0] = 2;
  check(cudaMemcpyAsync(back.data, d.data, 1, cudaMemcpyDeviceToHost, s.get()));
  gate.open = true;
  s.synchronize();
  BOOST_TEST(static_cast<int>(back.data[0]) == 1);
}

BOOST_AUTO_TEST_CASE(a_copy_to_pageable_memory_has_happened_when_the_call_returns) {
  const Stream s("s");
  const DeviceBytes d(3);
  hostcuda::delay_stream(0, std::chrono::milliseconds(3));
  std::vector<char> target(3, 0);
  check(cudaMemsetAsync(d.data, 7, 3, s.get()));
  check(cudaMemcpyAsync(target.data(), d.data, 3, cudaMemcpyDeviceToHost, s.get()));
  BOOST_TEST(static_cast<int>(target[2]) == 7);  // no synchronization in between
  hostcuda::reset_faults();
}

BOOST_AUTO_TEST_CASE(a_large_copy_from_pageable_memory_is_staged_whole) {
  const Stream s("s");
  constexpr std::size_t kBytes = (13 << 20) + 1;  // passes through the staging buffers more than once
  const DeviceBytes d(kBytes);
  std::vector<char> source(kBytes), back(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) source[i] = static_cast<char>(i % 251);
  const std::vector<char> expected = source;
  hostcuda::delay_stream(0, std::chrono::milliseconds(1));
  check(cudaMemcpyAsync(d.data, source.data(), kBytes, cudaMemcpyHostToDevice, s.get()));
  std::fill(source.begin(), source.end(), 'x');
  check(cudaMemcpyAsync(back.data(), d.data, kBytes, cudaMemcpyDeviceToHost, s.get()));
  BOOST_TEST((back == expected));
  hostcuda::reset_faults();
}

BOOST_AUTO_TEST_CASE(a_copy_whose_pointers_do_not_fit_its_direction_is_refused) {
  const DeviceBytes d(100), e(100);
  const PinnedBytes pinned(100);
  char host[200] = {};
  const auto copy = [](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
    BOOST_TEST(cudaGetLastError() == error);
    check(cudaStreamSynchronize(nullptr));
    return error;
  };
  const auto h2d = cudaMemcpyHostToDevice, d2h = cudaMemcpyDeviceToHost, d2d = cudaMemcpyDeviceToDevice;
  BOOST_TEST(copy(d.data, host, 100, h2d) == cudaSuccess);
  BOOST_TEST(copy(d.data, host, 101, h2d) == cudaErrorInvalidValue);
  BOOST_TEST(copy(d.data + 50, host, 51, h2d) == cudaErrorInvalidValue);
  BOOST_TEST(copy(d.data - 1, host, 2, h2d) == cudaErrorInvalidValue);
  BOOST_TEST(copy(host, host + 100, 10, h2d) == cudaErrorInvalidValue);
  BOOST_TEST(copy(d.data, e.data, 10, h2d) == cudaErrorInvalidValue);
  BOOST_TEST(copy(d.data, pinned.data + 50, 51, h2d) == cudaErrorInvalidValue);
  BOOST_TEST(copy(d.data, nullptr, 10, h2d) == cudaErrorInvalidValue);
  BOOST_TEST(copy(host, d.data + 99, 1, d2h) == cudaSuccess);
  BOOST_TEST(copy(host, d.data + 99, 2, d2h) == cudaErrorInvalidValue);
  BOOST_TEST(copy(e.data, d.data, 10, d2h) == cudaErrorInvalidValue);
  BOOST_TEST(copy(e.data, d.data, 100, d2d) == cudaSuccess);
  BOOST_TEST(copy(host, d.data, 10, d2d) == cudaErrorInvalidValue);
  BOOST_TEST(copy(host, host + 100, 10, cudaMemcpyKind{}) == cudaErrorInvalidMemcpyDirection);
  BOOST_TEST(copy(nullptr, nullptr, 0, h2d) == cudaSuccess);
  BOOST_TEST(cudaMemsetAsync(host, 0, 10, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cudaMemsetAsync(d.data, 0, 101, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cudaFree(host) == cudaErrorInvalidValue);
  BOOST_TEST(cudaFree(d.data + 1) == cudaErrorInvalidValue);
  BOOST_TEST(cudaFreeHost(d.data) == cudaErrorInvalidValue);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(each_direction_of_the_link_takes_the_time_its_speed_says) {
  const Stream s("s");
  const DeviceBytes d(1 << 20);
  const PinnedBytes h(1 << 20);
  hostcuda::set_link_gbps(0.1);
  Event start(Event::Timing::on), stop(Event::Timing::on);
  start.record(s.get());
  check(cudaMemcpyAsync(d.data, h.data, 1 << 20, cudaMemcpyHostToDevice, s.get()));
  check(cudaMemcpyAsync(h.data, d.data, 1 << 20, cudaMemcpyDeviceToHost, s.get()));
  stop.record(s.get());
  s.synchronize();
  BOOST_TEST(elapsed_ms(start, stop) >= 2 * 10.48f * 0.99f);
  hostcuda::reset_faults();
}

BOOST_AUTO_TEST_SUITE_END()
