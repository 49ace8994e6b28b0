// allocator.cpp - the books: see allocator.h.
#include "runtime/memory/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace spillway::memory {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kLargestRequest = std::int64_t{1} << 60;

std::string mib(std::int64_t bytes) {
  return fmt::format("{:.2f} MiB ({} bytes)", static_cast<double>(bytes) / kMiB, bytes);
}

MemoryEvent event_of(MemoryEvent::Kind kind, const Block& b, std::string_view owner) {
  return {kind, b.category, b.bytes, b.requested, b.address, owner, b.stream};
}
MemoryEvent segment_event(MemoryEvent::Kind kind, const void* address, std::int64_t bytes, cudaStream_t stream) {
  return {kind, Category::workspace, bytes, 0, address, "", stream};
}

// The parts of `reserved` that are not what somebody asked for, those that are not zero.
std::string state(const Policy& policy, const Breakdown& b) {
  std::string text = "policy " + policy.name();
  for (const auto& [name, bytes] :
       {std::pair("rounding", b.rounding), std::pair("unsplit slack", b.unsplit_slack),
        std::pair("inactive split", b.inactive_split), std::pair("cached segments", b.cached_segments),
        std::pair("pending", b.pending), std::pair("idle streams", b.idle_stream)})
    if (bytes > 0) text += fmt::format(", {} {:.2f} MiB", name, static_cast<double>(bytes) / kMiB);
  return text;
}

}  // namespace

Allocator::Allocator(DeviceMemory& device, std::unique_ptr<Policy> policy, Options options)
    : device_(device), options_(options), policy_(std::move(policy)) {
  policy_->keep_books(*this);
}

Allocator::~Allocator() {
  try {
    policy_->release_cached();
  } catch (const Error&) {
    // The device is lost, and its memory with it.
  }
}

Allocation Allocator::allocate(std::int64_t bytes, Category category, cudaStream_t stream, std::string_view owner) {
  Allocation result;
  if (bytes == 0) return result;
  if (bytes < 0 || bytes > kLargestRequest)
    throw Error(fmt::format("{} asks for {} bytes: an allocation's size is 0 to 2^60", owner, bytes));
  if (thrown_by_listener_) std::rethrow_exception(std::exchange(thrown_by_listener_, nullptr));
  Block* block = policy_->allocate(bytes, stream);
  if (!block) out_of_memory(bytes, category, stream, owner);
  block->category = category;
  Stats& s = stats_;
  block->serial = ++s.allocations;
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
  if (!listeners_.empty()) tell(event_of(MemoryEvent::Kind::allocate, *block, owner));
  return result;
}

void Allocator::free(Block* block) noexcept {
  Stats& s = stats_;
  s.frees++;
  s.allocated -= block->bytes;
  s.requested -= block->requested;
  s.by_category[static_cast<std::size_t>(block->category)] -= block->bytes;
  if (options_.poison_freed)
    cudaMemsetAsync(block->address, 0xFF, static_cast<std::size_t>(block->bytes), block->stream);
  if (listeners_.empty()) {
    policy_->free(block);
    return;
  }
  const MemoryEvent event = event_of(MemoryEvent::Kind::free, *block, "");
  policy_->free(block);
  tell_later_what_is_thrown(event);
}

void Allocator::out_of_memory(std::int64_t bytes, Category category, cudaStream_t stream, std::string_view owner) {
  Stats& s = stats_;
  s.ooms++;
  const Breakdown parts = breakdown_of(policy_->snapshot());
  const DeviceMemory::Info info = device_.info();
  std::string message = fmt::format(
      "out of memory: {} asked for {} of {}; allocated {}, reserved {}, cap {}, free on the device {}, largest free "
      "block {}; {}",
      owner, mib(bytes), to_string(category), mib(s.allocated), mib(s.reserved), mib(info.total_bytes),
      mib(info.free_bytes), mib(parts.largest_free), state(*policy_, parts));
  if (!activity_.empty()) message += "; during " + activity_;
  Block request;
  request.bytes = bytes;
  request.requested = bytes;
  request.category = category;
  request.stream = stream;
  tell(event_of(MemoryEvent::Kind::out_of_memory, request, owner));
  throw OutOfMemory(std::move(message), bytes, s.allocated, s.reserved, info.total_bytes);
}

void Allocator::tell(const MemoryEvent& event) {
  for (const Listener& listener : listeners_) listener(event, stats_);
}
void Allocator::tell_later_what_is_thrown(const MemoryEvent& event) noexcept {
  try {
    tell(event);
  } catch (...) {
    thrown_by_listener_ = std::current_exception();
  }
}

void Allocator::reserved_more(const void* address, std::int64_t bytes, cudaStream_t stream) {
  stats_.device_mallocs++;
  stats_.reserved += bytes;
  stats_.max_reserved = std::max(stats_.max_reserved, stats_.reserved);
  tell(segment_event(MemoryEvent::Kind::segment_allocate, address, bytes, stream));
}

void Allocator::reserved_less(const void* address, std::int64_t bytes, cudaStream_t stream) noexcept {
  stats_.device_frees++;
  stats_.reserved -= bytes;
  tell_later_what_is_thrown(segment_event(MemoryEvent::Kind::segment_release, address, bytes, stream));
}

void Allocator::reset_peaks() {
  stats_.max_allocated = stats_.allocated;
  stats_.max_requested = stats_.requested;
  stats_.max_reserved = stats_.reserved;
  stats_.at_peak = stats_.by_category;
  stats_.max_by_category = stats_.by_category;
}

void Allocator::check_invariants() const {
  policy_->check_invariants();
  const auto demand = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(std::string("allocator: ") + what);
  };
  std::int64_t allocated = 0, reserved = 0;
  CategoryBytes by_category{};
  const std::vector<SegmentView> segments = policy_->snapshot();
  for (const SegmentView& s : segments) {
    std::int64_t end = 0;
    for (const BlockView& b : s.blocks) {
      demand(b.offset == end && b.bytes > 0, "the blocks of a segment overlap or leave a gap");
      end += b.bytes;
      if (b.state != BlockState::allocated) continue;
      demand(b.requested > 0 && b.requested <= b.rounded && b.rounded <= b.bytes,
             "a block is smaller than its request");
      allocated += b.bytes;
      by_category[static_cast<std::size_t>(b.category)] += b.bytes;
    }
    demand(end == s.bytes, "the blocks of a segment do not fill it");
    reserved += s.bytes;
  }
  demand(allocated == stats_.allocated && reserved == stats_.reserved,
         "the statistics are not the sums over the blocks");
  demand(by_category == stats_.by_category, "the categories are not the sums over the blocks");
  const Breakdown parts = breakdown_of(segments);
  demand(parts.requested == stats_.requested, "what was requested is not the sum over the blocks");
  demand(parts.sum() == stats_.reserved, "the parts of what is reserved do not sum to it");
  demand(stats_.allocated <= stats_.max_allocated && stats_.reserved <= stats_.max_reserved,
         "a peak is below the present");
}

// ---- Listening and Step ---------------------------------------------------------------------------------------------

Allocator::Listening Allocator::listen(Listener listener) {
  Listening listening;
  listening.place_ = listeners_.insert(listeners_.end(), std::move(listener));
  listening.allocator_ = this;
  return listening;
}

Allocator::Listening& Allocator::Listening::operator=(Listening&& o) noexcept {
  if (this != &o) {
    stop();
    allocator_ = std::exchange(o.allocator_, nullptr);
    place_ = o.place_;
  }
  return *this;
}

void Allocator::Listening::stop() noexcept {
  if (allocator_) allocator_->listeners_.erase(place_);
  allocator_ = nullptr;
}

Allocator::Step::Step(Allocator& allocator, std::string_view kind) : allocator_(allocator) {
  allocator_.policy_->begin_step(kind);
  allocator_.tell_later_what_is_thrown(event_of(MemoryEvent::Kind::begin_step, Block{}, kind));
}

Allocator::Step::~Step() {
  allocator_.policy_->end_step();
  allocator_.tell_later_what_is_thrown(event_of(MemoryEvent::Kind::end_step, Block{}, ""));
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
  if (block_) allocator_->free(block_);
  block_ = nullptr;
  allocator_ = nullptr;
}

void Allocation::record_use(cudaStream_t stream) {
  if (!block_ || stream == block_->stream) return;
  allocator_->policy_->record_use(block_, stream);
  // Poison is written through the block's own stream, and must not meet that work.
  if (allocator_->options_.poison_freed) allocator_->device_.order(stream, block_->stream);
  MemoryEvent event = event_of(MemoryEvent::Kind::use, *block_, "");
  event.stream = stream;
  allocator_->tell_later_what_is_thrown(event);
}

}  // namespace spillway::memory
