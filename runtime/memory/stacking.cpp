// stacking.cpp - see stacking.h.
#include "runtime/memory/stacking.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "runtime/error.h"

namespace spillway::memory {

// ---- a smaller device -----------------------------------------------------------------------------------------------

void* CappedMemory::allocate(std::int64_t bytes) {
  if (!has_room(bytes)) return nullptr;
  void* segment = device_.allocate(bytes);
  if (segment) segments_and_pages_ += bytes;
  return segment;
}
void CappedMemory::release(void* segment, std::int64_t bytes) noexcept {
  device_.release(segment, bytes);
  segments_and_pages_ -= bytes;
}
bool CappedMemory::map_page(void* page) {
  if (!has_room(kPage) || !device_.map_page(page)) return false;
  segments_and_pages_ += kPage;
  return true;
}
void CappedMemory::unmap_page(void* page) noexcept {
  device_.unmap_page(page);
  segments_and_pages_ -= kPage;
}
void* CappedMemory::allocate_async(std::int64_t bytes, cudaStream_t stream) {
  void* memory = device_.allocate_async(bytes, stream);
  if (!memory || cap_ <= 0) return memory;
  try {
    look_at_pool();
    if (!has_room(0)) trim_pool();
  } catch (...) {
    device_.release_async(memory, stream);
    throw;
  }
  if (has_room(0)) return memory;
  device_.release_async(memory, stream);
  trim_pool();
  return nullptr;
}
void CappedMemory::trim_pool() {
  device_.trim_pool();
  look_at_pool();
}
DeviceMemory::Info CappedMemory::info() const {
  const Info all = device_.info();
  if (cap_ <= 0) return all;
  return {std::min(all.free_bytes, std::max<std::int64_t>(cap_ - used(), 0)), std::min(all.total_bytes, cap_)};
}

// ---- wrappers -------------------------------------------------------------------------------------------------------

std::string Wrapper::remarks_with(const std::string& own) const {
  const std::string others = below_->remarks();
  return others.empty() ? own : own + "; " + others;
}

Block* Limit::allocate(std::int64_t bytes, cudaStream_t stream) {
  if (bytes > limit_ - handed_out_) return nullptr;
  Block* block = below().allocate(bytes, stream);
  if (!block) return nullptr;
  if (block->bytes > limit_ - handed_out_) {  // its rounding does not fit any more
    below().free(block);
    return nullptr;
  }
  handed_out_ += block->bytes;
  return block;
}
void Limit::free(Block* block) noexcept {
  handed_out_ -= block->bytes;
  below().free(block);
}
std::string Limit::name() const {
  return fmt::format("limit:{}+{}", limit_, Wrapper::name());
}

Block* FailAt::allocate(std::int64_t bytes, cudaStream_t stream) {
  return ++requests_ == k_ ? nullptr : below().allocate(bytes, stream);
}
std::string FailAt::name() const {
  return fmt::format("fail:{}+{}", k_, Wrapper::name());
}

namespace {
std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}
}  // namespace

Log::Log(std::unique_ptr<Policy> below, const std::string& file)
    : Wrapper(std::move(below)), path_(file), file_(std::fopen(file.c_str(), "wx")), start_ns_(now_ns()) {
  if (!file_) throw Error(fmt::format("{}: cannot be created: {}", file, std::strerror(errno)));
  std::fputs("Thread,Time,Action,Pointer,Size,Stream\n", file_.get());
}
Block* Log::allocate(std::int64_t bytes, cudaStream_t stream) {
  Block* block = nullptr;
  try {
    block = below().allocate(bytes, stream);
  } catch (...) {
    line("allocate failure", nullptr, bytes, stream);
    throw;
  }
  line(block ? "allocate" : "allocate failure", block ? block->address : nullptr, bytes, stream);
  return block;
}
void Log::free(Block* block) noexcept {
  line("free", block->address, block->requested, block->stream);
  below().free(block);
}
void Log::line(const char* action, const void* pointer, std::int64_t bytes, cudaStream_t stream) noexcept {
  const std::int64_t us = (now_ns() - start_ns_) / 1000;
  if (std::fprintf(file_.get(), "0,%02lld:%02lld:%02lld.%06lld,%s,%p,%lld,%p\n",
                   static_cast<long long>(us / 3'600'000'000), static_cast<long long>(us / 60'000'000 % 60),
                   static_cast<long long>(us / 1'000'000 % 60), static_cast<long long>(us % 1'000'000), action, pointer,
                   static_cast<long long>(bytes), static_cast<const void*>(stream)) < 0)
    incomplete_ = true;
}
std::string Log::name() const {
  return fmt::format("log:{}+{}", path_, Wrapper::name());
}
std::string Log::remarks() const {
  std::fflush(file_.get());
  return remarks_with((incomplete_ || std::ferror(file_.get()) ? "incomplete log: " : "log: ") + path_);
}

void Statistics::Counter::add(std::int64_t n) {
  value += n;
  total += n;
  peak = std::max(peak, value);
}
Block* Statistics::allocate(std::int64_t bytes, cudaStream_t stream) {
  std::int64_t& alike = sizes_[std::bit_width(static_cast<std::uint64_t>(bytes) - 1)];  // may throw: before the rest
  Block* block = below().allocate(bytes, stream);
  if (!block) {
    ++refused_;
    return nullptr;
  }
  bytes_.add(bytes);
  blocks_.add(1);
  ++alike;
  return block;
}
void Statistics::free(Block* block) noexcept {
  bytes_.subtract(block->requested);
  blocks_.subtract(1);
  below().free(block);
}
std::string Statistics::name() const {
  return "statistics+" + Wrapper::name();
}
std::string Statistics::remarks() const {
  std::string text = fmt::format("{} blocks of {} bytes in all, at most {} of {} bytes at once, {} refused; up to",
                                 blocks_.total, bytes_.total, blocks_.peak, bytes_.peak, refused_);
  for (const auto& [log2, count] : sizes_)
    if (count > 0) text += fmt::format(" 2^{}: {}", log2, count);
  return remarks_with(text);
}

}  // namespace spillway::memory
