// device_buffer.h - device memory for kernel tests: vectors go up and come back. New memory is filled with NaNs (all
// bits set), so that a kernel which forgets to write an element, or reads one that nobody wrote, shows.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/cuda.h"

namespace spillway::test {

// The stream of all kernel tests.
inline cudaStream_t stream() {
  static const Stream the_stream("kernel tests");
  return the_stream.get();
}

template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::int64_t count) : count_(static_cast<std::size_t>(count)) {
    // At least a byte, so that an empty buffer has an address too.
    check(cudaMalloc(&memory_, count_ > 0 ? bytes() : 1));
    if (count_ > 0) check(cudaMemsetAsync(memory_, 0xff, bytes(), stream()));
  }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(static_cast<std::int64_t>(values.size())) {
    upload(values);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  ~DeviceBuffer() {
    if (memory_) cudaFree(memory_);
  }

  T* get() const { return static_cast<T*>(memory_); }
  operator T*() const { return get(); }

  void upload(const std::vector<T>& values) {
    if (values.empty()) return;
    check(cudaMemcpyAsync(memory_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream()));
    check(cudaStreamSynchronize(stream()));
  }
  std::vector<T> download() const {
    std::vector<T> values(count_);
    if (count_ > 0) check(cudaMemcpyAsync(values.data(), memory_, bytes(), cudaMemcpyDeviceToHost, stream()));
    check(cudaStreamSynchronize(stream()));
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }

  void* memory_ = nullptr;
  std::size_t count_ = 0;
};

using Floats = DeviceBuffer<float>;
using Ids = DeviceBuffer<std::int32_t>;

}  // namespace spillway::test
