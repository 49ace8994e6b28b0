// policy.h - where a request's bytes come from: the small interface behind which allocator policies are compared. A
// policy hands out blocks and takes them back; who they are for, what stands at the peak and who is told is the same
// for every policy and is kept by the Allocator on top of it (allocator.h).
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/memory/category.h"

namespace spillway::memory {

inline constexpr std::int64_t kAlignment = 512;  // of every block: its address and its size

// A piece of device memory. A policy adds what it needs by deriving.
struct Block {
  char* address = nullptr;
  std::int64_t bytes = 0;      // what it takes: `rounded` and whatever was not worth splitting off
  std::int64_t rounded = 0;    // the request by the policy's rounding
  std::int64_t requested = 0;  // what the caller asked for; 0 while free
  std::int64_t serial = 0;     // which allocation of the Allocator's it is, from 1
  cudaStream_t stream = nullptr;
  Category category = Category::workspace;
  bool allocated = false;
};

enum class BlockState : std::uint8_t {
  allocated,
  pending,  // freed, but a stream that used it may not have passed its last use
  free,
};
struct BlockView {
  std::int64_t offset, bytes, rounded, requested;
  BlockState state;
  Category category;
  std::int64_t serial;
};
// Contiguous device memory that a policy holds, with its blocks in address order.
struct SegmentView {
  const void* address;
  std::int64_t bytes;
  bool small;           // of a policy with a pool for small requests: this segment is in it
  cudaStream_t stream;  // whose requests it serves
  std::vector<BlockView> blocks;
};

// Where `reserved` is. The parts do not overlap and sum to it.
struct Breakdown {
  std::int64_t requested = 0;        // what callers asked for
  std::int64_t rounding = 0;         // added to requests by rounding
  std::int64_t unsplit_slack = 0;    // behind a request, not worth splitting off
  std::int64_t inactive_split = 0;   // free, in segments that somebody still uses: fragmentation
  std::int64_t cached_segments = 0;  // free, in segments that nobody uses: could go back to the device
  std::int64_t pending = 0;          // freed, waiting for a stream that used it
  std::int64_t idle_stream = 0;      // free, of streams that have nothing allocated: no other stream may take it
  std::int64_t largest_free = 0;     // not a part: the largest block that is free
  std::int64_t sum() const {
    return requested + rounding + unsplit_slack + inactive_split + cached_segments + pending + idle_stream;
  }
};
Breakdown breakdown_of(const std::vector<SegmentView>& segments);

// What a policy tells of its dealings with the device: the allocator's books.
class DeviceBooks {
 public:
  virtual ~DeviceBooks() = default;
  // `bytes` more, or less, are reserved. Told when the policy is consistent again. `reserved_more` may throw; the
  // policy keeps what it reserved then, for the next request.
  virtual void reserved_more(const void* address, std::int64_t bytes, cudaStream_t stream) = 0;
  virtual void reserved_less(const void* address, std::int64_t bytes, cudaStream_t stream) noexcept = 0;
  // A request found the device full, and the policy gave back what it could to try again.
  virtual void retried() = 0;
};

// One host thread at a time. A block freed on stream s may be handed out on s at once, because the device runs s in
// order; who used it on another stream too either orders that use before the free, or has called record_use().
class Policy {
 public:
  virtual ~Policy() = default;

  // A block for `bytes` (> 0) on `stream`; null when there is no memory for it, after everything was tried. Throws what
  // the device throws. Either way every block handed out stays as it was.
  virtual Block* allocate(std::int64_t bytes, cudaStream_t stream) = 0;
  virtual void free(Block* block) noexcept = 0;
  // `stream` uses the block as well, with work that is issued by now: no other use of its memory before that is done.
  virtual void record_use(Block* block, cudaStream_t stream) = 0;
  // Gives back to the device what nobody uses, after synchronizing it.
  virtual void release_cached() = 0;

  // A step of `kind` begins and ends: what repeats may be foreseen.
  virtual void begin_step(std::string_view kind);
  virtual void end_step() noexcept;

  virtual std::vector<SegmentView> snapshot() const = 0;
  // Walks every structure and throws std::logic_error on the first broken invariant. For tests and debugging.
  virtual void check_invariants() const = 0;
  // As a specification that makes such a policy again.
  virtual std::string name() const = 0;
  // What a person should know of how it went, one line; empty: nothing.
  virtual std::string remarks() const;

  // Who keeps the books; before the first allocation. A policy that stands on another passes it on.
  virtual void keep_books(DeviceBooks& books) { books_ = &books; }

 protected:
  DeviceBooks& books() const { return *books_; }

 private:
  DeviceBooks* books_ = nullptr;
};

}  // namespace spillway::memory
