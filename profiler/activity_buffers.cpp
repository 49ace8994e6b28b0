// activity_buffers.cpp - see activity_buffers.h.
#include "profiler/activity_buffers.h"

#include <utility>

namespace spillway::profiler {

std::uint8_t* ActivityBuffers::give(std::size_t& bytes) {
  // CUPTI's advice: a few MiB, so that buffers change rarely; records are 8-byte aligned.
  constexpr std::size_t kBytes = std::size_t{4} << 20, kAlignment = 64;
  std::unique_ptr<std::uint8_t, Free> buffer(static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBytes)));
  bytes = buffer ? kBytes : 0;
  if (!buffer) return nullptr;
  std::uint8_t* address = buffer.get();
  const std::lock_guard lock(mutex_);
  given_.emplace(address, std::move(buffer));
  return address;
}

void ActivityBuffers::take_back(std::uint8_t* buffer, std::size_t valid_bytes) {
  const std::lock_guard lock(mutex_);
  const auto it = given_.find(buffer);
  if (it == given_.end()) return;
  if (valid_bytes > 0) filled_.push_back({std::move(it->second), valid_bytes});
  given_.erase(it);
}

std::vector<ActivityBuffers::Filled> ActivityBuffers::take_filled() {
  const std::lock_guard lock(mutex_);
  return std::exchange(filled_, {});
}

}  // namespace spillway::profiler
