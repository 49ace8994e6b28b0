// Device memory is a budget, and copies have CUDA's semantics: pinned ones are asynchronous, pageable ones stage or
// block.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/cuda.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/stream.h"
#include "test/fixture.h"

using namespace spillway;

namespace {

struct Budget {
  explicit Budget(std::int64_t bytes) : before(hostcuda::device_memory()) { hostcuda::set_device_memory(bytes); }
  ~Budget() { hostcuda::set_device_memory(before); }
  std::int64_t before;
};

struct DeviceBytes {
  explicit DeviceBytes(std::size_t bytes) { check(cudaMalloc(&data, bytes)); }
  ~DeviceBytes() { cudaFree(data); }
  char* data = nullptr;
};
struct PinnedBytes {
  explicit PinnedBytes(std::size_t bytes) { check(cudaMallocHost(&data, bytes)); }
  ~PinnedBytes() { cudaFreeHost(data); }
  char* data = nullptr;
};

// Holds a stream back until it is let go.
struct Gate {
  explicit Gate(const Stream& s) {
    check(hostcuda::enqueue("cudaLaunchKernel", s.get(), [this] {
      while (!open) std::this_thread::yield();
    }));
  }
  std::atomic<bool> open{false};
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

BOOST_AUTO_TEST_CASE(an_address_outside_every_allocation_is_refused) {
  const DeviceBytes d(100);
  char host[200] = {};
  const auto h2d = cudaMemcpyHostToDevice;
  BOOST_TEST(cudaMemcpyAsync(d.data, host, 101, h2d, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cudaMemcpyAsync(d.data + 50, host, 51, h2d, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cudaMemcpyAsync(host, host + 100, 10, h2d, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cudaMemsetAsync(host, 0, 10, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cudaFree(host) == cudaErrorInvalidValue);
  BOOST_TEST(cudaFree(d.data + 1) == cudaErrorInvalidValue);
  BOOST_TEST(cudaMemcpyAsync(d.data, host, 100, h2d, nullptr) == cudaSuccess);
  check(cudaStreamSynchronize(nullptr));
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(books_only_memory_costs_nothing_and_nothing_runs) {
  const Budget budget(std::int64_t{1} << 39);
  hostcuda::set_books_only(true);
  {
    const Stream s("s");
    char* huge = nullptr;
    BOOST_TEST(cudaMalloc(&huge, std::size_t{1} << 38) == cudaSuccess);
    BOOST_TEST(cudaMemsetAsync(huge, 1, std::size_t{1} << 38, s.get()) == cudaSuccess);
    bool ran = false;
    BOOST_TEST(hostcuda::enqueue("cudaLaunchKernel", s.get(), [&] { ran = true; }) == cudaSuccess);
    s.synchronize();
    BOOST_TEST(!ran);
    void* more = nullptr;
    BOOST_TEST(cudaMalloc(&more, (std::size_t{1} << 38) + 1) == cudaErrorMemoryAllocation);
    cudaGetLastError();
    BOOST_TEST(cudaFree(huge) == cudaSuccess);
  }
  hostcuda::set_books_only(false);
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

BOOST_AUTO_TEST_CASE(a_copy_that_names_the_wrong_direction_is_refused) {
  char a[4], b[4];
  BOOST_TEST(cudaMemcpyAsync(a, b, 4, cudaMemcpyHostToHost, nullptr) == cudaErrorInvalidMemcpyDirection);
  BOOST_TEST(cudaMemcpyAsync(a, b, 4, cudaMemcpyDeviceToDevice, nullptr) == cudaErrorInvalidValue);
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
