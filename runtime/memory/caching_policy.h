// caching_policy.h - a caching policy by the published rules of PyTorch's CUDACachingAllocator, so that our bytes
// compare with its bytes. cudaMalloc is slow and synchronizes; a step asks for the same sizes every time; so segments
// are kept and their blocks handed out again, in the order of the stream that freed them.
//
// The rules (c10/cuda/CUDACachingAllocator.cpp): round up to 512 B; requests <= 1 MiB live in the small pool, in 2 MiB
// segments; others in the large pool: < 10 MiB from 20 MiB segments, else a segment of their own rounded up to 2 MiB;
// best fit by (stream, size, address); split when the remainder is >= 512 B (small) or > 1 MiB (large); neighbours
// merge on free; on a miss: cudaMalloc, then release cached segments, retry, then give up. One thing is ours: before
// the retry asks the device, it looks among the blocks that were pending until then.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/memory/device_memory.h"
#include "runtime/memory/policy.h"

namespace spillway::memory {

// PyTorch's knobs of the same names (PYTORCH_CUDA_ALLOC_CONF).
struct CachingOptions {
  // Blocks of this size and more are never split, and serve requests of this size and more only, with at most 20 MiB to
  // spare. Whole MiB, more than 20. 0: every block may be split.
  std::int64_t max_split_size = 0;
  // Sizes are rounded up to one of so many steps between powers of two (a power of two itself; 1 and 0: to 512 only).
  std::int64_t roundup_power2_divisions = 0;
  // When more than this share of the device is reserved, cached segments older than the average go back before more is
  // asked for. 0: never. Above 0, below 1.
  double garbage_collection_threshold = 0;
};

class CachingPolicy final : public Policy {
 public:
  explicit CachingPolicy(DeviceMemory& device, CachingOptions options = {});
  ~CachingPolicy() override;
  Block* allocate(std::int64_t bytes, cudaStream_t stream) override;
  void free(Block* block) noexcept override;
  // The block is pending after its free, until events on those streams are seen to have passed: at the next request.
  void record_use(Block* block, cudaStream_t stream) override;
  void release_cached() override;
  std::vector<SegmentView> snapshot() const override;
  void check_invariants() const override;
  std::string name() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The rules' arithmetic, for tests and for those who plan with it.
std::int64_t caching_round(std::int64_t bytes, std::int64_t power2_divisions);
std::int64_t caching_segment_bytes(std::int64_t rounded);

}  // namespace spillway::memory
