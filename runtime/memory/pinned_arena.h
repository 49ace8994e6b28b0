// pinned_arena.h - host memory that offloaded tensors are copied to: one allocation, made when a plan is installed, cut
// into static slots. cudaMallocHost is slow and synchronizes, so nothing is allocated after the first step.
#pragma once
#include <cstdint>
#include <vector>

namespace spillway::memory {

enum class HostMemory : std::uint8_t {
  pinned,    // page-locked: copies run asynchronously at the full speed of the link
  pageable,  // ordinary: each copy is staged by the driver and blocks the host; what the naive way costs. Its pages
             // come with the first step that writes them.
};

class PinnedArena {
 public:
  // One arena with a slot of each size (bytes > 0), 512-byte aligned. Throws CudaError with
  // cudaErrorMemoryAllocation, naming the bytes, when the host has not that much.
  PinnedArena(HostMemory kind, const std::vector<std::int64_t>& slot_bytes);
  ~PinnedArena();
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  void* slot(std::size_t index) const;
  std::int64_t slot_bytes(std::size_t index) const { return sizes_.at(index); }
  std::size_t slots() const { return sizes_.size(); }
  std::int64_t bytes() const { return bytes_; }  // of the whole arena, rounding included
  HostMemory kind() const { return kind_; }

 private:
  HostMemory kind_;
  std::vector<std::int64_t> sizes_, offsets_;
  std::int64_t bytes_ = 0;
  void* base_ = nullptr;
};

}  // namespace spillway::memory
