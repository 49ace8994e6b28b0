// device_memory.cpp - segments by cudaMalloc: see device_memory.h.
#include "runtime/memory/device_memory.h"

#include "runtime/cuda.h"

namespace spillway::memory {

void* CudaDeviceMemory::allocate(std::int64_t bytes) {
  void* segment = nullptr;
  const cudaError_t status = cudaMalloc(&segment, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is answered here: the next check must not find it
    return nullptr;
  }
  check(status);
  return segment;
}

// A failure here can only be an earlier kernel's, which the next checked call reports.
void CudaDeviceMemory::release(void* segment, std::int64_t) noexcept {
  cudaFree(segment);
}

void CudaDeviceMemory::synchronize() {
  check(cudaDeviceSynchronize());
}

DeviceMemory::Info CudaDeviceMemory::info() const {
  std::size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes));
  return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes)};
}

}  // namespace spillway::memory
