// device_fixture.h - what the tests of the host device share: owners of its memory, a gate that holds a stream back,
// two streams that find the device as new and leave it so.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/cuda.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/stream.h"
#include "test/fixture.h"

namespace spillway::test {

struct DeviceBytes {
  explicit DeviceBytes(std::size_t bytes) { check(cudaMalloc(&data, bytes)); }
  ~DeviceBytes() { cudaFree(data); }
  DeviceBytes(const DeviceBytes&) = delete;
  char* data = nullptr;
};
struct PinnedBytes {
  explicit PinnedBytes(std::size_t bytes) { check(cudaMallocHost(&data, bytes)); }
  ~PinnedBytes() { cudaFreeHost(data); }
  PinnedBytes(const PinnedBytes&) = delete;
  char* data = nullptr;
};

// Holds a stream back until it is opened: what a slow kernel does, without a guess how slow.
struct Gate {
  explicit Gate(const Stream& s) {
    check(hostcuda::enqueue("cudaLaunchKernel", "task", s.get(), [this] {
      while (!open) std::this_thread::yield();
    }));
  }
  std::atomic<bool> open{false};
};

struct TwoStreams {
  Stream a{"a"}, b{"b"};  // numbers 0 and 1
  ~TwoStreams() {
    cudaStreamSynchronize(a.get());
    cudaStreamSynchronize(b.get());
    hostcuda::reset_faults();
  }
};

// A kernel of one line.
inline void run_on(const Stream& s, std::function<void()> task) {
  check(hostcuda::enqueue("cudaLaunchKernel", "task", s.get(), std::move(task)));
}

}  // namespace spillway::test
