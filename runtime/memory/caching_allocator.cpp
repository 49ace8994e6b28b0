// caching_allocator.cpp - see caching_allocator.h for the rules. The fast path comes first: a look-up in an ordered set
// whose nodes are the blocks themselves, so that a malloc + free pair touches no heap. The slow path asks the device.
#include "runtime/memory/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/intrusive/set.hpp>
#include <deque>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace spillway::memory {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kRound = 512;   // sizes are multiples of this, and so are offsets in a segment
constexpr std::int64_t kSmall = kMiB;  // requests up to here live in the small pool
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kLargeRequest = 10 * kMiB;  // from here on a request gets a segment of its own
constexpr std::int64_t kLargeSegment = 20 * kMiB;
constexpr std::int64_t kSegmentRound = 2 * kMiB;

std::int64_t rounded(std::int64_t bytes) {
  return (bytes + kRound - 1) / kRound * kRound;
}

std::int64_t segment_bytes(std::int64_t block_bytes) {
  if (block_bytes <= kSmall) return kSmallSegment;
  if (block_bytes < kLargeRequest) return kLargeSegment;
  return (block_bytes + kSegmentRound - 1) / kSegmentRound * kSegmentRound;
}

namespace bi = boost::intrusive;
}  // namespace

// A piece of a segment, free or handed out. Neighbours in the segment form a doubly linked list.
struct Block : bi::set_base_hook<bi::link_mode<bi::normal_link>> {
  cudaStream_t stream = nullptr;
  std::int64_t bytes = 0;
  char* address = nullptr;
  std::int64_t requested = 0;  // 0 while free
  Block *previous = nullptr, *next = nullptr;
  bool small = false, allocated = false;
  Category category = Category::workspace;

  bool whole_segment() const { return !previous && !next; }
};

namespace {
// Best fit: within a stream the smallest block that is large enough, the lowest address among equals.
struct Fit {
  bool operator()(const Block& a, const Block& b) const {
    return std::tie(a.stream, a.bytes, a.address) < std::tie(b.stream, b.bytes, b.address);
  }
};
using Pool = bi::set<Block, bi::compare<Fit>, bi::constant_time_size<false>>;
}  // namespace

struct CachingAllocator::Impl {
  Impl(CachingAllocator& owner, DeviceMemory& device, AllocatorOptions options)
      : self(owner), device(device), options(options) {}

  Pool& pool(bool small) { return small ? small_blocks : large_blocks; }

  // An allocation needs two new blocks at most, a segment and what is split off it. With both at hand before anything
  // changes, it cannot fail half way.
  void reserve_spares() {
    if (spare && spare->next) return;
    for (int i = 0; i < 2; ++i) recycle(&nodes.emplace_back());
  }
  Block* new_block() {
    Block* block = spare;
    spare = block->next;
    *block = Block{};
    return block;
  }
  void recycle(Block* block) {
    block->next = spare;
    spare = block;
  }

  // The best fitting free block of the stream, taken out of its pool; null on a miss.
  Block* take_free(std::int64_t bytes, bool small, cudaStream_t stream) {
    Pool& free = pool(small);
    Block key;
    key.stream = stream;
    key.bytes = bytes;
    const auto found = free.lower_bound(key);
    if (found == free.end() || found->stream != stream) return nullptr;
    Block* block = &*found;
    free.erase(found);
    return block;
  }

  // Adds a segment to its pool, as one free block; false when the device, or the cap, has no room.
  bool add_segment(std::int64_t block_bytes, bool small, cudaStream_t stream) {
    const std::int64_t bytes = segment_bytes(block_bytes);
    if (options.cap_bytes > 0 && self.stats_.reserved > options.cap_bytes - bytes) return false;
    segments.reserve(segments.size() + 1);
    void* memory = device.allocate(bytes);
    if (!memory) return false;
    Block* block = new_block();
    block->stream = stream;
    block->bytes = bytes;
    block->address = static_cast<char*>(memory);
    block->small = small;
    segments.push_back(block);
    pool(small).insert(*block);
    Stats& s = self.stats_;
    s.device_mallocs++;
    s.reserved += bytes;
    s.max_reserved = std::max(s.max_reserved, s.reserved);
    tell(event(MemoryEvent::Kind::segment_allocate, *block, ""));
    return true;
  }

  // Cuts what `block` does not need off its end, where the rest is worth keeping.
  void split(Block* block, std::int64_t bytes) {
    const std::int64_t rest = block->bytes - bytes;
    if (block->small ? rest < kRound : rest <= kSmall) return;
    Block* tail = new_block();
    tail->stream = block->stream;
    tail->bytes = rest;
    tail->address = block->address + bytes;
    tail->small = block->small;
    tail->previous = block;
    tail->next = block->next;
    if (tail->next) tail->next->previous = tail;
    block->next = tail;
    block->bytes = bytes;
    pool(tail->small).insert(*tail);
  }

  // Two free neighbours, neither of them in a pool, become one.
  Block* merge(Block* low, Block* high) {
    low->bytes += high->bytes;
    low->next = high->next;
    if (low->next) low->next->previous = low;
    recycle(high);
    return low;
  }

  void free(Block* block) noexcept {
    const MemoryEvent freed = event(MemoryEvent::Kind::free, *block, "");
    Stats& s = self.stats_;
    s.frees++;
    s.allocated -= block->bytes;
    s.requested -= block->requested;
    s.by_category[static_cast<std::size_t>(block->category)] -= block->bytes;
    if (options.poison_freed)
      cudaMemsetAsync(block->address, 0xFF, static_cast<std::size_t>(block->bytes), block->stream);
    block->allocated = false;
    block->requested = 0;
    Pool& free = pool(block->small);
    if (Block* next = block->next; next && !next->allocated) {
      free.erase(free.iterator_to(*next));
      block = merge(block, next);
    }
    if (Block* previous = block->previous; previous && !previous->allocated) {
      free.erase(free.iterator_to(*previous));
      block = merge(previous, block);
    }
    free.insert(*block);
    tell(freed);
  }

  void release_cached() {
    device.synchronize();
    for (Pool* free : {&large_blocks, &small_blocks})
      for (auto it = free->begin(); it != free->end();) {
        Block* block = &*it;
        if (!block->whole_segment()) {
          ++it;
          continue;
        }
        it = free->erase(it);
        std::erase(segments, block);
        device.release(block->address, block->bytes);
        self.stats_.device_frees++;
        self.stats_.reserved -= block->bytes;
        const MemoryEvent released = event(MemoryEvent::Kind::segment_release, *block, "");
        recycle(block);
        tell(released);
      }
  }

  [[noreturn]] void out_of_memory(std::int64_t bytes, Category category, cudaStream_t stream, std::string_view owner) {
    Stats& s = self.stats_;
    s.ooms++;
    std::int64_t largest = 0;
    for (const Pool* free : {&small_blocks, &large_blocks})
      for (const Block& b : *free) largest = std::max(largest, b.bytes);
    const DeviceMemory::Info info = device.info();
    const std::int64_t cap = options.cap_bytes > 0 ? options.cap_bytes : info.total_bytes;
    const auto mib = [](std::int64_t b) {
      return fmt::format("{:.2f} MiB ({} bytes)", static_cast<double>(b) / kMiB, b);
    };
    std::string message = fmt::format(
        "out of memory: {} asked for {} of {}; allocated {}, reserved {}, cap {}, free on the device {}, largest free "
        "block {}",
        owner, mib(bytes), to_string(category), mib(s.allocated), mib(s.reserved), mib(cap), mib(info.free_bytes),
        mib(largest));
    if (!self.activity_.empty()) message += "; during " + self.activity_;
    Block request;
    request.bytes = segment_bytes(rounded(bytes));
    request.requested = bytes;
    request.category = category;
    request.stream = stream;
    tell(event(MemoryEvent::Kind::out_of_memory, request, owner));
    throw OutOfMemory(std::move(message), bytes, s.allocated, s.reserved, cap);
  }

  static MemoryEvent event(MemoryEvent::Kind kind, const Block& b, std::string_view owner) {
    return {kind, b.category, b.bytes, b.requested, b.address, owner, b.stream};
  }
  // Last in every operation, when the books are balanced again.
  void tell(const MemoryEvent& event) const {
    if (self.listener_) self.listener_(event, self.stats_);
  }

  CachingAllocator& self;
  DeviceMemory& device;
  AllocatorOptions options;
  Pool small_blocks, large_blocks;  // free blocks
  std::vector<Block*> segments;     // each segment's first block
  std::deque<Block> nodes;          // every block there ever was
  Block* spare = nullptr;           // those not in use, linked by next
};

CachingAllocator::CachingAllocator(DeviceMemory& device, AllocatorOptions options)
    : impl_(std::make_unique<Impl>(*this, device, options)) {}

CachingAllocator::~CachingAllocator() {
  try {
    impl_->release_cached();
  } catch (const Error&) {
    // The device is lost, and its memory with it.
  }
}

Allocation CachingAllocator::allocate(std::int64_t bytes, Category category, cudaStream_t stream,
                                      std::string_view owner) {
  Allocation result;
  if (bytes == 0) return result;
  checked_add(bytes, kLargeSegment, "an allocation's size");  // also refuses a negative one
  const std::int64_t wanted = rounded(bytes);
  const bool small = wanted <= kSmall;

  impl_->reserve_spares();
  Block* block = impl_->take_free(wanted, small, stream);
  if (!block) {
    if (!impl_->add_segment(wanted, small, stream)) {
      stats_.retries++;
      impl_->release_cached();
      if (!impl_->add_segment(wanted, small, stream)) impl_->out_of_memory(bytes, category, stream, owner);
    }
    block = impl_->take_free(wanted, small, stream);  // nothing else fits: it takes the new segment
  }
  impl_->split(block, wanted);

  block->allocated = true;
  block->requested = bytes;
  block->category = category;
  Stats& s = stats_;
  s.allocations++;
  s.allocated += block->bytes;
  s.requested += bytes;
  s.max_requested = std::max(s.max_requested, s.requested);
  const auto c = static_cast<std::size_t>(category);
  s.by_category[c] += block->bytes;
  s.max_by_category[c] = std::max(s.max_by_category[c], s.by_category[c]);
  if (s.allocated > s.max_allocated) {
    s.max_allocated = s.allocated;
    s.at_peak = s.by_category;
  }
  result.block_ = block;
  result.allocator_ = this;
  impl_->tell(Impl::event(MemoryEvent::Kind::allocate, *block, owner));
  return result;
}

void CachingAllocator::reset_peaks() {
  stats_.max_allocated = stats_.allocated;
  stats_.max_requested = stats_.requested;
  stats_.max_reserved = stats_.reserved;
  stats_.at_peak = stats_.by_category;
  stats_.max_by_category = stats_.by_category;
}

void CachingAllocator::release_cached() {
  impl_->release_cached();
}

std::vector<CachingAllocator::SegmentView> CachingAllocator::snapshot() const {
  std::vector<Block*> by_address = impl_->segments;
  std::sort(by_address.begin(), by_address.end(),
            [](const Block* a, const Block* b) { return a->address < b->address; });
  std::vector<SegmentView> views;
  views.reserve(by_address.size());
  for (const Block* first : by_address) {
    SegmentView view{first->address, 0, first->small, first->stream, {}};
    for (const Block* b = first; b; b = b->next) {
      view.blocks.push_back({view.bytes, b->bytes, b->requested, b->allocated, b->category});
      view.bytes += b->bytes;
    }
    views.push_back(std::move(view));
  }
  return views;
}

void CachingAllocator::check_invariants() const {
  const auto demand = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(std::string("caching allocator: ") + what);
  };
  std::int64_t allocated = 0, requested = 0, reserved = 0;
  CategoryBytes by_category{};
  std::size_t free_blocks = 0;
  for (const Block* first : impl_->segments) {
    demand(!first->previous, "a segment does not begin with its first block");
    for (const Block* b = first; b; b = b->next) {
      demand(b->bytes > 0 && b->bytes % kRound == 0, "a block's size is not a positive multiple of 512");
      demand(b->small == first->small && b->stream == first->stream, "blocks of one segment differ in pool or stream");
      if (b->next) {
        demand(b->next->previous == b && b->next->address == b->address + b->bytes, "neighbours do not touch");
        demand(b->allocated || b->next->allocated, "two free neighbours are not merged");
      }
      reserved += b->bytes;
      if (b->allocated) {
        demand(b->requested > 0 && b->requested <= b->bytes, "a block is smaller than its request");
        allocated += b->bytes;
        requested += b->requested;
        by_category[static_cast<std::size_t>(b->category)] += b->bytes;
      } else {
        const Pool& free = b->small ? impl_->small_blocks : impl_->large_blocks;
        demand(free.find(*b) != free.end(), "a free block is in no pool");
        ++free_blocks;
      }
    }
  }
  demand(free_blocks == impl_->small_blocks.size() + impl_->large_blocks.size(), "a pool holds a block of no segment");
  demand(allocated == stats_.allocated && requested == stats_.requested && reserved == stats_.reserved,
         "the statistics are not the sums over the blocks");
  demand(by_category == stats_.by_category, "the categories are not the sums over the blocks");
  demand(stats_.allocated <= stats_.max_allocated && stats_.reserved <= stats_.max_reserved,
         "a peak is below the present");
}

// ---- Allocation -----------------------------------------------------------------------------------------------------

Allocation::Allocation(Allocation&& o) noexcept
    : block_(std::exchange(o.block_, nullptr)), allocator_(std::exchange(o.allocator_, nullptr)) {}

Allocation& Allocation::operator=(Allocation&& o) noexcept {
  if (this != &o) {
    reset();
    block_ = std::exchange(o.block_, nullptr);
    allocator_ = std::exchange(o.allocator_, nullptr);
  }
  return *this;
}

void Allocation::reset() noexcept {
  if (block_) allocator_->impl_->free(block_);
  block_ = nullptr;
  allocator_ = nullptr;
}

void* Allocation::data() const {
  return block_ ? block_->address : nullptr;
}
std::int64_t Allocation::bytes() const {
  return block_ ? block_->requested : 0;
}

}  // namespace spillway::memory
