// memory_pool.cpp - memory pools whose allocations stand in the order of streams: what is freed in a stream can be had
// again in that stream at once. The driver's way of doing it is not published; this one takes chunks of the device's
// memory and cuts the best fitting free piece of the stream. No memory goes from one stream to another (the attributes
// that would allow it are off), except by trimming.
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/memory.h"
#include "runtime/hostcuda/stream_queue.h"

namespace {

constexpr std::size_t kGranularity = 512, kChunk = 32 << 20, kChunkGranularity = 2 << 20;

struct Piece {
  std::size_t bytes = 0;
  cudaStream_t stream = nullptr;  // whose it is while free
  bool free = false;
};
struct Chunk {
  std::size_t bytes = 0;
  std::map<std::uintptr_t, Piece> pieces;  // in address order, without gaps

  bool unused() const {
    return std::all_of(pieces.begin(), pieces.end(), [](const auto& p) { return p.second.free; });
  }
};

}  // namespace

struct CUmemPoolHandle_st {
  std::map<std::uintptr_t, Chunk> chunks;
  std::size_t reserved = 0;

  // The smallest free piece of the stream that is large enough, lowest address first among equals.
  std::pair<Chunk*, std::uintptr_t> best_fit(std::size_t bytes, cudaStream_t stream) {
    std::pair<Chunk*, std::uintptr_t> best{nullptr, 0};
    std::size_t best_bytes = SIZE_MAX;
    for (auto& [base, chunk] : chunks)
      for (const auto& [address, piece] : chunk.pieces)
        if (piece.free && piece.stream == stream && piece.bytes >= bytes && piece.bytes < best_bytes) {
          best = {&chunk, address};
          best_bytes = piece.bytes;
        }
    return best;
  }

  bool grow(std::size_t bytes, cudaStream_t stream) {
    const std::size_t rounded =
        (std::max(bytes, kChunk) + kChunkGranularity - 1) / kChunkGranularity * kChunkGranularity;
    if (!spillway::hostcuda::take_budget(rounded)) return false;
    const int protection = spillway::hostcuda::books_only() ? PROT_NONE : PROT_READ | PROT_WRITE;
    void* p = ::mmap(nullptr, rounded, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      spillway::hostcuda::return_budget(rounded);
      return false;
    }
    const auto base = reinterpret_cast<std::uintptr_t>(p);
    chunks[base] = {rounded, {{base, {rounded, stream, true}}}};
    spillway::hostcuda::add_device_range(p, rounded);
    reserved += rounded;
    return true;
  }

  void drop(std::map<std::uintptr_t, Chunk>::iterator chunk) {
    void* p = reinterpret_cast<void*>(chunk->first);
    const std::size_t bytes = chunk->second.bytes;
    spillway::hostcuda::remove_device_range(p);
    ::munmap(p, bytes);
    spillway::hostcuda::return_budget(bytes);
    reserved -= bytes;
    chunks.erase(chunk);
  }
};

namespace {

struct Pools {
  std::mutex mutex;  // hosts only
  std::map<cudaMemPool_t, std::unique_ptr<CUmemPoolHandle_st>> live;
};
Pools& pools() {
  static Pools& p = *new Pools;  // never destroyed, see call.cpp
  return p;
}

// Free neighbours of one stream become one piece.
void merge_around(Chunk& chunk, std::map<std::uintptr_t, Piece>::iterator it) {
  const auto joins = [](const Piece& a, const Piece& b) { return a.free && b.free && a.stream == b.stream; };
  if (const auto next = std::next(it); next != chunk.pieces.end() && joins(it->second, next->second)) {
    it->second.bytes += next->second.bytes;
    chunk.pieces.erase(next);
  }
  if (it != chunk.pieces.begin())
    if (const auto previous = std::prev(it); joins(previous->second, it->second)) {
      previous->second.bytes += it->second.bytes;
      chunk.pieces.erase(it);
    }
}

}  // namespace

using namespace spillway::hostcuda;

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  const Call call("cudaMemPoolCreate");
  if (call.error() != cudaSuccess) return call.error();
  if (!pool || !properties || properties->allocType != cudaMemAllocationTypePinned ||
      properties->location.type != cudaMemLocationTypeDevice || properties->location.id != 0)
    return answer(cudaErrorInvalidValue);
  auto made = std::make_unique<CUmemPoolHandle_st>();
  *pool = made.get();
  const std::lock_guard lock(pools().mutex);
  pools().live.emplace(*pool, std::move(made));
  return cudaSuccess;
}

// What is still allocated goes with it, which CUDA would postpone until it is freed.
cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  const Call call("cudaMemPoolDestroy");
  drain_all_streams();
  const std::lock_guard lock(pools().mutex);
  const auto pool = pools().live.find(handle);
  if (pool == pools().live.end()) return answer(cudaErrorInvalidValue);
  while (!handle->chunks.empty()) handle->drop(handle->chunks.begin());
  pools().live.erase(pool);
  return call.error();
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  const Call call("cudaMemPoolSetAttribute");
  if (call.error() != cudaSuccess) return call.error();
  const std::lock_guard lock(pools().mutex);
  if (!pools().live.contains(handle) || !value) return answer(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      return *static_cast<int*>(value) == 0 ? cudaSuccess : answer(cudaErrorInvalidValue);
    case cudaMemPoolAttrReleaseThreshold:
      return *static_cast<std::uint64_t*>(value) == UINT64_MAX ? cudaSuccess : answer(cudaErrorInvalidValue);
    default:
      return answer(cudaErrorInvalidValue);
  }
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  const Call call("cudaMemPoolGetAttribute");
  if (call.error() != cudaSuccess) return call.error();
  const std::lock_guard lock(pools().mutex);
  if (!pools().live.contains(handle) || !value || attribute != cudaMemPoolAttrReservedMemCurrent)
    return answer(cudaErrorInvalidValue);
  *static_cast<std::uint64_t*>(value) = handle->reserved;
  return cudaSuccess;
}

// Chunks of which nothing is allocated, largest first, until no more than `bytes_to_keep` is left.
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, std::size_t bytes_to_keep) {
  const Call call("cudaMemPoolTrimTo");
  if (call.error() != cudaSuccess) return call.error();
  drain_all_streams();
  const std::lock_guard lock(pools().mutex);
  if (!pools().live.contains(handle)) return answer(cudaErrorInvalidValue);
  while (handle->reserved > bytes_to_keep) {
    auto largest = handle->chunks.end();
    for (auto it = handle->chunks.begin(); it != handle->chunks.end(); ++it)
      if (it->second.unused() && (largest == handle->chunks.end() || it->second.bytes > largest->second.bytes))
        largest = it;
    if (largest == handle->chunks.end()) break;
    handle->drop(largest);
  }
  return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t handle, cudaStream_t stream) {
  const Call call("cudaMallocFromPoolAsync");
  if (call.error() != cudaSuccess) return call.error();
  const std::lock_guard lock(pools().mutex);
  if (!pointer || bytes == 0 || !pools().live.contains(handle)) return answer(cudaErrorInvalidValue);
  if (!find_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
  *pointer = nullptr;
  if (bytes > SIZE_MAX / 2) return answer(cudaErrorMemoryAllocation);
  const std::size_t rounded = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  auto [chunk, address] = handle->best_fit(rounded, stream);
  if (!chunk) {
    if (!handle->grow(rounded, stream)) return answer(cudaErrorMemoryAllocation);
    std::tie(chunk, address) = handle->best_fit(rounded, stream);
  }
  Piece& piece = chunk->pieces.at(address);
  if (piece.bytes > rounded) chunk->pieces[address + rounded] = {piece.bytes - rounded, stream, true};
  piece = {rounded, stream, false};
  record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
                reinterpret_cast<void*>(address), rounded);
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

// From now on `stream` can have it again: the work of other streams is the caller's to order before.
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  const Call call("cudaFreeAsync");
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(pools().mutex);
  for (const auto& [handle, pool] : pools().live) {
    const auto after = pool->chunks.upper_bound(address);
    if (after == pool->chunks.begin()) continue;
    Chunk& chunk = std::prev(after)->second;
    const auto piece = chunk.pieces.find(address);
    if (piece == chunk.pieces.end()) continue;
    if (piece->second.free) break;
    record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, pointer,
                  piece->second.bytes);
    piece->second.free = true;
    piece->second.stream = stream;
    merge_around(chunk, piece);
    return call.error();
  }
  return answer(cudaErrorInvalidValue);
}
