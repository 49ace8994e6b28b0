// pinned_arena.cpp - see pinned_arena.h.
#include "runtime/memory/pinned_arena.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>

#include "runtime/cuda.h"

namespace spillway::memory {

PinnedArena::PinnedArena(HostMemory kind, const std::vector<std::int64_t>& slot_bytes)
    : kind_(kind), sizes_(slot_bytes) {
  constexpr std::int64_t kAlign = 512;
  for (const std::int64_t bytes : sizes_) {
    if (bytes <= 0) throw Error(fmt::format("host arena: a slot of {} bytes; slots hold at least one", bytes));
    offsets_.push_back(bytes_);
    bytes_ = checked_add(bytes_, checked_add(bytes, kAlign - 1, "host arena") / kAlign * kAlign, "host arena");
  }
  if (bytes_ == 0) return;
  const auto size = static_cast<std::size_t>(bytes_);
  if (kind_ == HostMemory::pinned) {
    const cudaError_t status = cudaMallocHost(&base_, size);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is answered here: the next check must not find it
      base_ = nullptr;
    } else {
      check(status);
    }
  } else {
    base_ = std::aligned_alloc(kAlign, size);
  }
  if (!base_)
    throw CudaError(
        cudaErrorMemoryAllocation,
        fmt::format("out of host memory: an arena of {} bytes ({:.1f} MiB) of {} memory could not be had", bytes_,
                    static_cast<double>(bytes_) / (1 << 20), kind_ == HostMemory::pinned ? "pinned" : "pageable"));
}

PinnedArena::~PinnedArena() {
  if (kind_ == HostMemory::pinned)
    cudaFreeHost(base_);
  else
    std::free(base_);
}

void* PinnedArena::slot(std::size_t index) const {
  return static_cast<char*>(base_) + offsets_.at(index);
}

}  // namespace spillway::memory
