// caching_allocator.h - what the program allocates from unless told otherwise: the caching policy under the books, on a
// device that may be capped.
#pragma once
#include "runtime/memory/allocator.h"
#include "runtime/memory/caching_policy.h"
#include "runtime/memory/stacking.h"

namespace spillway::memory {

struct AllocatorOptions {
  std::int64_t cap_bytes = 0;  // refuse to reserve more than this; 0: what the device has
  bool poison_freed = false;   // see Allocator::Options
};

// A base, so that it stands before the allocator does.
struct HoldsCappedMemory {
  CappedMemory capped;
};

class CachingAllocator : private HoldsCappedMemory, public Allocator {
 public:
  explicit CachingAllocator(DeviceMemory& device, AllocatorOptions options = {})
      : HoldsCappedMemory{CappedMemory(device, options.cap_bytes)},
        Allocator(capped, std::make_unique<CachingPolicy>(capped), {options.poison_freed}) {}
};

}  // namespace spillway::memory
