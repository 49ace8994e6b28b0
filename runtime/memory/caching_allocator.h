// caching_allocator.h - a caching device allocator by the published rules of PyTorch's CUDACachingAllocator, so that
// our bytes compare with its bytes. cudaMalloc is slow and synchronizes; a step asks for the same sizes every time;
// so segments are kept and their blocks handed out again, in the order of the stream that freed them.
//
// The rules (c10/cuda/CUDACachingAllocator.cpp): round up to 512 B; requests <= 1 MiB live in the small pool, in 2 MiB
// segments; others in the large pool: < 10 MiB from 20 MiB segments, else a segment of their own rounded up to 2 MiB;
// best fit by (stream, size, address); split when the remainder is >= 512 B (small) or > 1 MiB (large); neighbours
// merge on free; on a miss: cudaMalloc, then release every cached segment, retry once, then OutOfMemory.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"
#include "runtime/memory/category.h"
#include "runtime/memory/device_memory.h"

namespace spillway::memory {

// The request cannot be served. The message is the one line of an `oom` row: request, allocated, reserved, cap, the
// largest free block, and what was being computed.
class OutOfMemory : public Error {
 public:
  OutOfMemory(std::string message, std::int64_t requested, std::int64_t allocated, std::int64_t reserved,
              std::int64_t cap)
      : Error(std::move(message)), requested(requested), allocated(allocated), reserved(reserved), cap(cap) {}
  std::int64_t requested, allocated, reserved, cap;
};

struct Stats {
  std::int64_t allocated = 0, max_allocated = 0;  // sum of live blocks (rounded, with unsplit slack, as PyTorch counts)
  std::int64_t requested = 0, max_requested = 0;  // sum of what callers asked for
  std::int64_t reserved = 0, max_reserved = 0;    // sum of segments
  CategoryBytes by_category{};                    // of allocated, now
  CategoryBytes at_peak{};                        // of allocated, when max_allocated was reached (first time)
  CategoryBytes max_by_category{};                // each category's own maximum
  std::int64_t device_mallocs = 0, device_frees = 0, retries = 0, ooms = 0, allocations = 0, frees = 0;
};

// One line of the ledger: what happened, after it happened.
struct MemoryEvent {
  enum class Kind : std::uint8_t { allocate, free, segment_allocate, segment_release, out_of_memory } kind;
  Category category;
  std::int64_t bytes;      // the block's or segment's
  std::int64_t requested;  // what the caller asked for (allocate, free)
  const void* address;
  std::string_view owner;  // valid during the call
  cudaStream_t stream;
};

class CachingAllocator;

// Owns one block. Freed to the allocator, in the order of its stream, when it goes.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& o) noexcept;
  Allocation& operator=(Allocation&& o) noexcept;
  ~Allocation() { reset(); }
  void reset() noexcept;
  void* data() const;
  std::int64_t bytes() const;  // as requested
  explicit operator bool() const { return block_ != nullptr; }

 private:
  friend class CachingAllocator;
  struct Block* block_ = nullptr;
  CachingAllocator* allocator_ = nullptr;
};

struct AllocatorOptions {
  std::int64_t cap_bytes = 0;  // refuse to reserve more than this; 0: what the device has
  // Debugging: fill blocks with 0xFF (NaN) through the block's stream when they are freed, so that a use after free
  // shows as a NaN loss. Costs a memset a free.
  bool poison_freed = false;
};

// One host thread at a time. Streams only label pools of blocks: a block freed on stream s may be handed out on s at
// once, because the device runs s in order. Who reads a block from another stream orders that read before the free.
class CachingAllocator {
 public:
  explicit CachingAllocator(DeviceMemory& device, AllocatorOptions options = {});
  ~CachingAllocator();  // every Allocation must be gone
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // A block of at least `bytes` (>= 0; 0 gives an empty Allocation) for `stream`. `owner` names it in the ledger and
  // in an OOM ("layer 3 gate"). Throws OutOfMemory, or what the device throws, after which the allocator is as before
  // the call (but for cached segments given back).
  Allocation allocate(std::int64_t bytes, Category category, cudaStream_t stream, std::string_view owner);

  const Stats& stats() const { return stats_; }
  // max_* := the current live values; at_peak := by_category.
  void reset_peaks();
  // Gives every wholly free segment back to the device, after synchronizing it.
  void release_cached();
  // What is being computed, for the message of an OOM: "forward, layer 3, attention".
  void set_activity(std::string activity) { activity_ = std::move(activity); }
  // Called after every event, when snapshot() already shows it; empty to stop. A listener must not allocate or free;
  // what it throws from allocate() undoes the allocation.
  void set_listener(std::function<void(const MemoryEvent&, const Stats&)> listener) { listener_ = std::move(listener); }

  // For tests, snapshots and pictures: every segment with its blocks in address order.
  struct BlockView {
    std::int64_t offset, bytes, requested;
    bool allocated;
    Category category;
  };
  struct SegmentView {
    const void* address;
    std::int64_t bytes;
    bool small;
    cudaStream_t stream;
    std::vector<BlockView> blocks;
  };
  std::vector<SegmentView> snapshot() const;
  // Walks every structure and throws std::logic_error on the first broken invariant. For tests and debugging.
  void check_invariants() const;

 private:
  friend class Allocation;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  Stats stats_;
  std::string activity_;
  std::function<void(const MemoryEvent&, const Stats&)> listener_;
};

}  // namespace spillway::memory
