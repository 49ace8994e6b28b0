// caching_policy.cpp - see caching_policy.h for the rules. The fast path comes first: a look-up in an ordered set whose
// nodes are the blocks themselves, so that a malloc + free pair touches no heap. The slow path asks the device.
#include "runtime/memory/caching_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/intrusive/set.hpp>
#include <deque>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "runtime/error.h"

namespace spillway::memory {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kSmall = kMiB;  // requests up to here live in the small pool
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kLargeRequest = 10 * kMiB;  // from here on a request gets a segment of its own
constexpr std::int64_t kLargeSegment = 20 * kMiB;
constexpr std::int64_t kSegmentRound = 2 * kMiB;
constexpr std::int64_t kOversizeSlack = 20 * kMiB;  // what an unsplittable block may exceed a request by

std::int64_t round_up(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

namespace bi = boost::intrusive;

// A piece of a segment, free or handed out. Neighbours in the segment form a doubly linked list.
struct Piece : Block, bi::set_base_hook<bi::link_mode<bi::normal_link>> {
  Piece *previous = nullptr, *next = nullptr;
  bool small = false, pending = false;
  std::int64_t cached_at = 0;       // look-ups that the pool had seen when the block came to it
  std::vector<cudaStream_t> users;  // other streams, while handed out
  // While pending: what those streams have yet to pass. Unmarked, because no mark could be set: only an idle device is
  // proof.
  std::vector<std::unique_ptr<DeviceMemory::Mark>> marks;
  bool marked = false;
  bool whole_segment() const { return !previous && !next; }
};

// Best fit: within a stream the smallest block that is large enough, the lowest address among equals.
struct Fit {
  bool operator()(const Piece& a, const Piece& b) const {
    return std::tie(a.stream, a.bytes, a.address) < std::tie(b.stream, b.bytes, b.address);
  }
};

struct Pool {
  bi::set<Piece, bi::compare<Fit>, bi::constant_time_size<false>> blocks;
  std::int64_t lookups = 0;

  void insert(Piece& piece) {
    piece.cached_at = lookups;
    blocks.insert(piece);
  }
  void erase(Piece& piece) { blocks.erase(blocks.iterator_to(piece)); }
};

}  // namespace

std::int64_t caching_round(std::int64_t bytes, std::int64_t divisions) {
  if (divisions > 1 && bytes > kAlignment * divisions) {
    const auto floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
    return round_up(bytes, floor / divisions);
  }
  return round_up(bytes, kAlignment);
}

std::int64_t caching_segment_bytes(std::int64_t rounded) {
  if (rounded <= kSmall) return kSmallSegment;
  if (rounded < kLargeRequest) return kLargeSegment;
  return round_up(rounded, kSegmentRound);
}

struct CachingPolicy::Impl {
  Impl(CachingPolicy& self, DeviceMemory& device, CachingOptions options)
      : self(self), device(device), options(options) {}

  Pool& pool(bool is_small) { return is_small ? small_blocks : large_blocks; }
  bool oversize(std::int64_t bytes) const { return options.max_split_size > 0 && bytes >= options.max_split_size; }

  // An allocation needs two new blocks at most, a segment and what is split off it. With both at hand before anything
  // changes, it cannot fail half way.
  void reserve_spares() {
    if (spare && spare->next) return;
    for (int i = 0; i < 2; ++i) recycle(&nodes.emplace_back());
  }
  Piece* new_piece(cudaStream_t stream, char* address, std::int64_t bytes, bool is_small) {
    Piece* piece = spare;
    spare = piece->next;
    piece->stream = stream;
    piece->address = address;
    piece->bytes = bytes;
    piece->small = is_small;
    piece->previous = piece->next = nullptr;
    return piece;
  }
  void recycle(Piece* piece) {
    piece->next = spare;
    spare = piece;
  }

  // The best fitting free block of the stream, taken out of its pool; null on a miss.
  Piece* take_free(std::int64_t bytes, bool is_small, cudaStream_t stream) {
    Pool& free = pool(is_small);
    Piece key;
    key.stream = stream;
    key.bytes = bytes;
    const auto found = free.blocks.lower_bound(key);
    if (found == free.blocks.end() || found->stream != stream) return nullptr;
    if (!is_small && oversize(found->bytes) && (!oversize(bytes) || found->bytes >= bytes + kOversizeSlack))
      return nullptr;
    free.blocks.erase(found);
    return &*found;
  }

  // A new segment, as one free block out of any pool; null when the device has no room. When who keeps the books
  // throws, it stays, in its pool.
  Piece* add_segment(std::int64_t block_bytes, bool is_small, cudaStream_t stream) {
    const std::int64_t bytes = caching_segment_bytes(block_bytes);
    segments.reserve(segments.size() + 1);
    void* memory = device.allocate(bytes);
    if (!memory) return nullptr;
    Piece* piece = new_piece(stream, static_cast<char*>(memory), bytes, is_small);
    segments.push_back(piece);
    pool(is_small).insert(*piece);
    reserved += bytes;
    self.books().reserved_more(memory, bytes, stream);
    pool(is_small).erase(*piece);
    return piece;
  }

  // Cuts what `piece` does not need off its end, where the rest is worth keeping.
  void split(Piece* piece, std::int64_t bytes) {
    const std::int64_t rest = piece->bytes - bytes;
    if (piece->small ? rest < kAlignment : rest <= kSmall || oversize(bytes)) return;
    Piece* tail = new_piece(piece->stream, piece->address + bytes, rest, piece->small);
    tail->previous = piece;
    tail->next = piece->next;
    if (tail->next) tail->next->previous = tail;
    piece->next = tail;
    piece->bytes = bytes;
    pool(tail->small).insert(*tail);
  }

  // Two free neighbours, neither of them in a pool, become one.
  Piece* merge(Piece* low, Piece* high) {
    low->bytes += high->bytes;
    low->next = high->next;
    if (low->next) low->next->previous = low;
    recycle(high);
    return low;
  }

  // Back into its pool, together with its free neighbours.
  void cache(Piece* piece) {
    Pool& free = pool(piece->small);
    const auto is_free = [](const Piece* p) { return p && !p->allocated && !p->pending; };
    if (Piece* next = piece->next; is_free(next)) {
      free.erase(*next);
      piece = merge(piece, next);
    }
    if (Piece* previous = piece->previous; is_free(previous)) {
      free.erase(*previous);
      piece = merge(previous, piece);
    }
    free.insert(*piece);
  }

  // ---- blocks that other streams used -------------------------------------------------------------------------------

  // Makes room for everything that its free will need, because a free cannot fail.
  void add_user(Piece* piece, cudaStream_t stream) {
    std::vector<cudaStream_t>& users = piece->users;
    if (std::find(users.begin(), users.end(), stream) != users.end()) return;
    if (const std::size_t needed = pending.size() + shared + 1; needed > pending.capacity())
      pending.reserve(2 * needed);
    piece->marks.reserve(users.size() + 1);
    users.push_back(stream);
    if (users.size() == 1) ++shared;
  }

  // A mark on each stream that used it, looked at on their own: a stream that stalls does not hold back another's
  // blocks.
  void wait_for_users(Piece* piece) noexcept {
    piece->pending = true;
    pending.push_back(piece);
    --shared;
    try {
      for (const cudaStream_t user : piece->users) piece->marks.push_back(device.mark(user));
      piece->marked = true;
    } catch (...) {  // whatever it was: the next checked call reports what is wrong with the device
      piece->marks.clear();
      piece->marked = false;
    }
    piece->users.clear();
  }

  void cache_what_is_passed() {
    for (std::size_t i = 0; i < pending.size();) {
      Piece* piece = pending[i];
      auto& marks = piece->marks;
      while (!marks.empty() && marks.back()->reached()) marks.pop_back();
      if (!piece->marked || !marks.empty()) {
        ++i;
        continue;
      }
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
      piece->pending = false;
      cache(piece);
    }
  }

  // The device is idle: whatever was waited for is past.
  void cache_all_pending() {
    for (Piece* piece : pending) {
      piece->marks.clear();
      piece->pending = false;
      cache(piece);
    }
    pending.clear();
  }

  // ---- giving back --------------------------------------------------------------------------------------------------

  void release(Pool& from, Piece* piece) {
    from.erase(*piece);
    std::erase(segments, piece);
    char* const address = piece->address;
    const std::int64_t bytes = piece->bytes;
    const cudaStream_t stream = piece->stream;
    recycle(piece);
    device.release(address, bytes);
    reserved -= bytes;
    self.books().reserved_less(address, bytes, stream);
  }

  void release_cached() {
    device.synchronize();
    cache_all_pending();
    for (Pool* free : {&large_blocks, &small_blocks})
      for (auto it = free->blocks.begin(); it != free->blocks.end();) {
        Piece* piece = &*it++;
        if (piece->whole_segment()) release(*free, piece);
      }
  }

  // Before more is asked for: large cached segments that have gone unused for longer than the average, until what is
  // reserved is below the threshold again.
  void collect_garbage() {
    const double limit = options.garbage_collection_threshold * static_cast<double>(device.info().total_bytes);
    if (options.garbage_collection_threshold <= 0 || static_cast<double>(reserved) <= limit) return;
    const std::int64_t target = reserved - static_cast<std::int64_t>(limit);
    std::int64_t reclaimed = 0;
    bool idle = false;
    for (bool freed = true; freed && reclaimed < target;) {
      freed = false;
      std::int64_t age = 0, count = 0;
      for (const Piece& p : large_blocks.blocks)
        if (p.whole_segment()) age += large_blocks.lookups - p.cached_at, ++count;
      if (count == 0) return;
      if (!std::exchange(idle, true)) device.synchronize();
      const double average = static_cast<double>(age) / static_cast<double>(count);
      for (auto it = large_blocks.blocks.begin();
           it != large_blocks.blocks.end();) {  // to the end, so as not to come soon again
        Piece* piece = &*it++;
        if (!piece->whole_segment() || static_cast<double>(large_blocks.lookups - piece->cached_at) < average) continue;
        reclaimed += piece->bytes;
        freed = true;
        release(large_blocks, piece);
      }
    }
  }

  // With a limit to splitting, the smallest oversize segment that the request would fill, or the largest few; so that
  // not everything must go. False when they do not sum to the request. An oversize block is a whole segment: a smaller
  // request's segment is cut to less than the limit, which is a multiple of 1 MiB.
  bool release_oversize(std::int64_t bytes, bool is_small, cudaStream_t stream) {
    if (options.max_split_size == 0 || is_small) return false;
    Piece key;
    key.stream = stream;
    key.bytes = std::max(bytes, options.max_split_size);
    auto& blocks = large_blocks.blocks;
    auto it = blocks.lower_bound(key);
    if (it != blocks.end() && it->stream == stream) {
      device.synchronize();
      release(large_blocks, &*it);
      return true;
    }
    std::int64_t total = 0;
    while (total < key.bytes && it != blocks.begin()) {
      Piece* piece = &*std::prev(it);
      if (piece->stream != stream || piece->bytes < options.max_split_size) break;
      if (total == 0) device.synchronize();
      total += piece->bytes;
      release(large_blocks, piece);
    }
    return total >= key.bytes;
  }

  CachingPolicy& self;
  DeviceMemory& device;
  CachingOptions options;
  Pool small_blocks, large_blocks;  // free blocks
  std::vector<Piece*> segments;     // each segment's first block
  std::deque<Piece> nodes;          // every block there ever was
  Piece* spare = nullptr;           // those not in use, linked by next
  std::vector<Piece*> pending;      // in the order of their frees
  std::size_t shared = 0;           // blocks handed out that have users
  std::int64_t reserved = 0;
};

CachingPolicy::CachingPolicy(DeviceMemory& device, CachingOptions options)
    : impl_(std::make_unique<Impl>(*this, device, options)) {
  if (options.max_split_size != 0 && (options.max_split_size <= kLargeSegment || options.max_split_size % kMiB != 0))
    throw Error(
        fmt::format("max-split {}: whole MiB, more than 20 (a large segment, which must be splittable); 0: no limit",
                    options.max_split_size));
  const std::int64_t divisions = options.roundup_power2_divisions;
  if (divisions < 0 || divisions > 64 || (divisions & (divisions - 1)) != 0)
    throw Error(fmt::format("roundup {}: a power of two up to 64; 0 or 1: none", divisions));
  if (!(options.garbage_collection_threshold >= 0 && options.garbage_collection_threshold < 1))
    throw Error(fmt::format("gc {}: a share from 0 (never) to below 1", options.garbage_collection_threshold));
}
CachingPolicy::~CachingPolicy() = default;

Block* CachingPolicy::allocate(std::int64_t bytes, cudaStream_t stream) {
  Impl& i = *impl_;
  const std::int64_t wanted = caching_round(bytes, i.options.roundup_power2_divisions);
  const bool small = wanted <= kSmall;
  if (!i.pending.empty()) i.cache_what_is_passed();
  i.reserve_spares();
  ++i.pool(small).lookups;
  Piece* piece = i.take_free(wanted, small, stream);
  if (!piece) {
    if (i.options.garbage_collection_threshold > 0) i.collect_garbage();
    piece = i.add_segment(wanted, small, stream);
    if (!piece && i.release_oversize(wanted, small, stream)) piece = i.add_segment(wanted, small, stream);
    if (!piece) {
      books().retried();
      i.release_cached();
      piece = i.take_free(wanted, small, stream);  // it may have been pending
      if (!piece) piece = i.add_segment(wanted, small, stream);
    }
    if (!piece) return nullptr;
  }
  i.split(piece, wanted);
  piece->allocated = true;
  piece->requested = bytes;
  piece->rounded = wanted;
  return piece;
}

void CachingPolicy::free(Block* block) noexcept {
  auto* piece = static_cast<Piece*>(block);
  piece->allocated = false;
  piece->requested = 0;
  if (piece->users.empty())
    impl_->cache(piece);
  else
    impl_->wait_for_users(piece);
}

void CachingPolicy::record_use(Block* block, cudaStream_t stream) {
  impl_->add_user(static_cast<Piece*>(block), stream);
}

void CachingPolicy::release_cached() {
  impl_->release_cached();
}

std::vector<SegmentView> CachingPolicy::snapshot() const {
  std::vector<Piece*> by_address = impl_->segments;
  std::sort(by_address.begin(), by_address.end(),
            [](const Piece* a, const Piece* b) { return a->address < b->address; });
  std::vector<SegmentView> views;
  views.reserve(by_address.size());
  for (const Piece* first : by_address) {
    SegmentView view{first->address, 0, first->small, first->stream, {}};
    for (const Piece* p = first; p; p = p->next) {
      const BlockState state = p->allocated ? BlockState::allocated
                               : p->pending ? BlockState::pending
                                            : BlockState::free;
      view.blocks.push_back(
          {view.bytes, p->bytes, p->allocated ? p->rounded : p->bytes, p->requested, state, p->category, p->serial});
      view.bytes += p->bytes;
    }
    views.push_back(std::move(view));
  }
  return views;
}

void CachingPolicy::check_invariants() const {
  const auto demand = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(std::string("caching policy: ") + what);
  };
  const auto is_free = [](const Piece* p) { return !p->allocated && !p->pending; };
  std::size_t free_blocks = 0, pending = 0;
  std::int64_t reserved = 0;
  for (const Piece* first : impl_->segments) {
    demand(!first->previous, "a segment does not begin with its first block");
    for (const Piece* p = first; p; p = p->next) {
      demand(p->bytes > 0 && p->bytes % kAlignment == 0, "a block's size is not a positive multiple of 512");
      demand(p->small == first->small && p->stream == first->stream, "blocks of one segment differ in pool or stream");
      if (p->next) {
        demand(p->next->previous == p && p->next->address == p->address + p->bytes, "neighbours do not touch");
        demand(!is_free(p) || !is_free(p->next), "two free neighbours are not merged");
      }
      reserved += p->bytes;
      pending += p->pending ? 1 : 0;
      if (!is_free(p)) continue;
      const auto& free = impl_->pool(p->small).blocks;
      demand(free.find(*p) != free.end(), "a free block is in no pool");
      demand(p->whole_segment() || !impl_->oversize(p->bytes), "a free oversize block is a part of a segment");
      ++free_blocks;
    }
  }
  demand(free_blocks == impl_->small_blocks.blocks.size() + impl_->large_blocks.blocks.size(),
         "a pool holds a block of no segment");
  demand(pending == impl_->pending.size(), "a pending block is not waited for");
  demand(reserved == impl_->reserved, "what is reserved is not the sum of the segments");
}

std::string CachingPolicy::name() const {
  const CachingOptions& o = impl_->options;
  std::string name = "caching";
  if (o.max_split_size > 0) name += fmt::format(":max-split={}", o.max_split_size);
  if (o.roundup_power2_divisions > 1) name += fmt::format(":roundup={}", o.roundup_power2_divisions);
  if (o.garbage_collection_threshold > 0) name += fmt::format(":gc={}", o.garbage_collection_threshold);
  return name;
}

}  // namespace spillway::memory
