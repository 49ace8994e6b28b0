// device_memory.h - where segments come from. The caching allocator is given one of these, so that its policy can be
// tested, fuzzed and replayed without a device.
#pragma once
#include <cstdint>

namespace spillway::memory {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // A segment of `bytes`, or nullptr when the device has not that much left. Throws CudaError on any other failure.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* segment, std::int64_t bytes) noexcept = 0;
  // Waits until the device is idle: segments may be returned to it afterwards.
  virtual void synchronize() = 0;
  // Bytes free and total, for the message of an OOM.
  struct Info {
    std::int64_t free_bytes = 0, total_bytes = 0;
  };
  virtual Info info() const = 0;
};

// cudaMalloc / cudaFree.
class CudaDeviceMemory final : public DeviceMemory {
 public:
  void* allocate(std::int64_t bytes) override;
  void release(void* segment, std::int64_t bytes) noexcept override;
  void synchronize() override;
  Info info() const override;
};

}  // namespace spillway::memory
