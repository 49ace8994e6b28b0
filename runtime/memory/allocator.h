// allocator.h - what everybody allocates device memory from: a policy, and the books over it. Every block has a
// category and an owner, sums and peaks are kept to the byte, listeners hear every event, and when memory runs out the
// message says what was asked for, what stands there and what was being computed.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/memory/category.h"
#include "runtime/memory/device_memory.h"
#include "runtime/memory/policy.h"

namespace spillway::memory {

// The request cannot be served. The message is the one line of an `oom` row: request, allocated, reserved, cap, the
// largest free block, the policy with its state, and what was being computed.
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
  std::int64_t reserved = 0, max_reserved = 0;    // what the policy holds of the device
  CategoryBytes by_category{};                    // of allocated, now
  CategoryBytes at_peak{};                        // of allocated, when max_allocated was reached (first time)
  CategoryBytes max_by_category{};                // each category's own maximum
  std::int64_t device_mallocs = 0, device_frees = 0, retries = 0, ooms = 0, allocations = 0, frees = 0;
};

// One line of the ledger: what happened, after it happened.
struct MemoryEvent {
  enum class Kind : std::uint8_t {
    allocate,
    free,
    segment_allocate,
    segment_release,
    out_of_memory,
    use,         // by `stream`, which is not the block's
    begin_step,  // of the kind that `owner` names
    end_step,
  } kind;
  Category category;
  std::int64_t bytes;      // the block's or segment's; of an out_of_memory what the caller asked for
  std::int64_t requested;  // what the caller asked for (allocate, free, out_of_memory)
  const void* address;
  std::string_view owner;  // valid during the call
  cudaStream_t stream;
};

class Allocator;

// Owns one block. Freed to the allocator, in the order of its stream, when it goes.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& o) noexcept;
  Allocation& operator=(Allocation&& o) noexcept;
  ~Allocation() { reset(); }
  void reset() noexcept;
  void* data() const { return block_ ? block_->address : nullptr; }
  std::int64_t bytes() const { return block_ ? block_->requested : 0; }  // as requested
  explicit operator bool() const { return block_ != nullptr; }
  // `stream` has been given work that uses the block, and nothing orders that work before the free: the policy sees to
  // it that the memory is not used again before it is done.
  void record_use(cudaStream_t stream);

 private:
  friend class Allocator;
  Block* block_ = nullptr;
  Allocator* allocator_ = nullptr;
};

// One host thread at a time, as its policy.
class Allocator : private DeviceBooks {
 public:
  struct Options {
    // Debugging: fill blocks with 0xFF (NaN) through the block's stream when they are freed, so that a use after free
    // shows as a NaN loss. Costs a memset a free, and streams that share blocks wait for one another.
    bool poison_freed = false;
  };
  // `device` answers how much there is, for the message of an out-of-memory.
  Allocator(DeviceMemory& device, std::unique_ptr<Policy> policy, Options options);
  Allocator(DeviceMemory& device, std::unique_ptr<Policy> policy) : Allocator(device, std::move(policy), Options{}) {}
  ~Allocator() override;  // every Allocation must be gone
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // A block of at least `bytes` (>= 0; 0 gives an empty Allocation) for `stream`. `owner` names it in the ledger and
  // in an OOM ("layer 3 gate"). Throws OutOfMemory, or what the device throws, after which the allocator is as before
  // the call (but for cached segments given back).
  Allocation allocate(std::int64_t bytes, Category category, cudaStream_t stream, std::string_view owner);

  const Stats& stats() const { return stats_; }
  // max_* := the current live values; at_peak := by_category.
  void reset_peaks();
  // Gives what nobody uses back to the device, after synchronizing it.
  void release_cached() { policy_->release_cached(); }
  // What is being computed, for the message of an OOM: "forward, layer 3, attention".
  void set_activity(std::string activity) { activity_ = std::move(activity); }

  // Called after every event, when snapshot() already shows it. A listener must not allocate, free, or begin or stop
  // listening; what it throws at an allocation undoes that, what it throws at anything else the next allocation throws.
  using Listener = std::function<void(const MemoryEvent&, const Stats&)>;
  // Hears for as long as it lives, which is not longer than the allocator.
  class Listening {
   public:
    Listening() = default;
    Listening(Listening&& o) noexcept : allocator_(std::exchange(o.allocator_, nullptr)), place_(o.place_) {}
    Listening& operator=(Listening&& o) noexcept;
    ~Listening() { stop(); }
    void stop() noexcept;
    explicit operator bool() const { return allocator_ != nullptr; }

   private:
    friend class Allocator;
    Allocator* allocator_ = nullptr;
    std::list<Listener>::iterator place_;
  };
  [[nodiscard]] Listening listen(Listener listener);

  // A step that repeats, for as long as it lives; `kind` ("training", "evaluation") tells one that does from another.
  class Step {
   public:
    Step(Allocator& allocator, std::string_view kind);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Allocator& allocator_;
  };

  // For tests, snapshots and pictures: every segment with its blocks, in address order.
  std::vector<SegmentView> snapshot() const { return policy_->snapshot(); }
  // The policy's invariants, and that the books are the sums over its blocks. Throws std::logic_error.
  void check_invariants() const;
  const Policy& policy() const { return *policy_; }

 private:
  friend class Allocation;
  void free(Block* block) noexcept;
  [[noreturn]] void out_of_memory(std::int64_t bytes, Category category, cudaStream_t stream, std::string_view owner);
  void tell(const MemoryEvent& event);
  void tell_later_what_is_thrown(const MemoryEvent& event) noexcept;  // of what cannot fail
  void reserved_more(const void* address, std::int64_t bytes, cudaStream_t stream) override;
  void reserved_less(const void* address, std::int64_t bytes, cudaStream_t stream) noexcept override;
  void retried() override { stats_.retries++; }

  DeviceMemory& device_;
  Options options_;
  Stats stats_;
  std::string activity_;
  std::list<Listener> listeners_;
  std::exception_ptr thrown_by_listener_;
  std::unique_ptr<Policy> policy_;  // last: what it still holds goes while the books stand
};

}  // namespace spillway::memory
