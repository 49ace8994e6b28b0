// device_memory.h - where a policy's memory comes from. There are three ways to have some: whole segments (cudaMalloc),
// pages mapped at addresses of one's own (virtual memory management), and the driver's stream-ordered pool. Injected,
// so that policies are tested, fuzzed and replayed without a device.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

namespace spillway::memory {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // ---- segments
  // A segment of `bytes`, or nullptr when the device has not that much left. Throws CudaError on any other failure.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* segment, std::int64_t bytes) noexcept = 0;

  // ---- order
  // Waits until the device is idle: segments may be returned to it afterwards.
  virtual void synchronize() = 0;
  // A point in a stream's work: reached when everything that the stream had been given is done.
  class Mark {
   public:
    virtual ~Mark() = default;
    virtual bool reached() = 0;
    virtual void wait() = 0;
  };
  virtual std::unique_ptr<Mark> mark(cudaStream_t stream);
  // What `after` is given from now on waits for what `before` has been given by now.
  virtual void order(cudaStream_t before, cudaStream_t after);

  // ---- pages of kPage bytes, at addresses of one's own
  static constexpr std::int64_t kPage = 2 << 20;
  virtual void* reserve_addresses(std::int64_t bytes);
  virtual void release_addresses(void* addresses, std::int64_t bytes) noexcept;
  virtual bool map_page(void* page);  // false when the device has no page left
  virtual void unmap_page(void* page) noexcept;

  // ---- the driver's pool
  // nullptr when there is no memory. Ordered in the stream.
  virtual void* allocate_async(std::int64_t bytes, cudaStream_t stream);
  virtual void release_async(void* memory, cudaStream_t stream) noexcept;
  virtual std::int64_t pool_reserved();
  virtual void trim_pool();  // gives back to the device what the pool does not use

  // Bytes free and total, for the message of an OOM.
  struct Info {
    std::int64_t free_bytes = 0, total_bytes = 0;
  };
  virtual Info info() const = 0;
};

// CUDA's. Blocks of the driver's pool stand in a pool of its own, which keeps what it has until it is trimmed.
class CudaDeviceMemory final : public DeviceMemory {
 public:
  CudaDeviceMemory();
  ~CudaDeviceMemory() override;
  void* allocate(std::int64_t bytes) override;
  void release(void* segment, std::int64_t bytes) noexcept override;
  void synchronize() override;
  std::unique_ptr<Mark> mark(cudaStream_t stream) override;
  void order(cudaStream_t before, cudaStream_t after) override;
  void* reserve_addresses(std::int64_t bytes) override;
  void release_addresses(void* addresses, std::int64_t bytes) noexcept override;
  bool map_page(void* page) override;
  void unmap_page(void* page) noexcept override;
  void* allocate_async(std::int64_t bytes, cudaStream_t stream) override;
  void release_async(void* memory, cudaStream_t stream) noexcept override;
  std::int64_t pool_reserved() override;
  void trim_pool() override;
  Info info() const override;

 private:
  struct Pages;
  struct Pool;
  std::unique_ptr<Pages> pages_;  // when first asked for
  std::unique_ptr<Pool> pool_;    // the same
};

}  // namespace spillway::memory
