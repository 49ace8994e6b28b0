// copy.cpp - copies and memsets, with the synchronization that CUDA documents (CUDA Runtime API, "API synchronization
// behavior"): a copy from or to pinned memory is asynchronous. From pageable memory the bytes are staged before the
// call returns, and the host may change them then. To pageable memory the call returns when the copy is done.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/memory.h"
#include "runtime/hostcuda/slowness.h"
#include "runtime/hostcuda/stream_queue.h"

namespace spillway::hostcuda {
namespace {

// A large copy passes through two buffers, as in a driver: the call waits for the stream when both are full.
constexpr std::size_t kStagingBytes = 4 << 20;

void stage(StreamQueue& stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  std::uint32_t last = 0, last_but_one = 0;  // positions in the stream
  for (std::size_t at = 0; at < bytes; at += kStagingBytes) {
    if (at >= 2 * kStagingBytes) stream.wait_for(last_but_one);
    std::vector<std::byte> staged(from + at, from + at + std::min(kStagingBytes, bytes - at));
    last_but_one = last;
    const std::size_t piece = staged.size();
    last = stream.append(StreamQueue::Kind::work,
                         recorded_copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE,
                                       CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, piece, stream.id(),
                                       [to = to + at, staged = std::move(staged)] {
                                         std::memcpy(to, staged.data(), staged.size());
                                         occupy_link(Link::to_device, staged.size());
                                       }));
  }
}

// The error of the arguments alone: each pointer has to be where the direction says.
cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const auto is_host = [](Owner o) { return o == Owner::pinned || o == Owner::pageable; };
  bool right = to && from;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      right = right && owner_of(to, bytes) == Owner::device && is_host(owner_of(from, bytes));
      break;
    case cudaMemcpyDeviceToHost:
      right = right && is_host(owner_of(to, bytes)) && owner_of(from, bytes) == Owner::device;
      break;
    case cudaMemcpyDeviceToDevice:
      right = right && owner_of(to, bytes) == Owner::device && owner_of(from, bytes) == Owner::device;
      break;
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
  return right ? cudaSuccess : cudaErrorInvalidValue;
}

CUpti_ActivityMemcpyKind record_kind(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDeviceToDevice) return CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  return kind == cudaMemcpyHostToDevice ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD : CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
}
CUpti_ActivityMemoryKind record_memory_kind(Owner owner) {
  if (owner == Owner::device) return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  return owner == Owner::pinned ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED : CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
}

// A copy on its way; where the call must not return before it is done, it is.
cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream_handle) {
  if (bytes == 0) return cudaSuccess;
  if (const cudaError_t e = check_copy(to, from, bytes, kind); e != cudaSuccess) return answer(e);
  const auto stream = find_stream(stream_handle);
  if (!stream) return answer(cudaErrorInvalidResourceHandle);

  if (kind == cudaMemcpyHostToDevice && owner_of(from, bytes) == Owner::pageable) {
    if (!books_only()) stage(*stream, static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    return cudaSuccess;
  }
  const bool waits = kind == cudaMemcpyDeviceToHost && owner_of(to, bytes) == Owner::pageable;
  if (!books_only())
    stream->append(StreamQueue::Kind::work,
                   recorded_copy(record_kind(kind), record_memory_kind(owner_of(from, bytes)),
                                 record_memory_kind(owner_of(to, bytes)), bytes, stream->id(), [=] {
                                   std::memcpy(to, from, bytes);
                                   if (kind == cudaMemcpyHostToDevice) occupy_link(Link::to_device, bytes);
                                   if (kind == cudaMemcpyDeviceToHost) occupy_link(Link::to_host, bytes);
                                 }));
  if (!waits) return cudaSuccess;
  const WaitRecord wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, stream->id());
  stream->drain();
  // A result that the host will read is small; a tensor that is offloaded is not, and its pages are never touched.
  constexpr std::size_t kMostRead = 1 << 20;
  if (books_only() && bytes <= kMostRead) std::memset(to, 0, bytes);
  return answer(sticky_error());
}

}  // namespace
}  // namespace spillway::hostcuda

using namespace spillway::hostcuda;

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Call call("cudaMemcpyAsync");
  if (call.error() != cudaSuccess) return call.error();
  return copy(to, from, bytes, kind, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Call call("cudaMemcpy");
  if (call.error() != cudaSuccess) return call.error();
  if (const cudaError_t e = copy(to, from, bytes, kind, nullptr); e != cudaSuccess) return e;
  find_stream(nullptr)->drain();
  return answer(sticky_error());
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Call call("cudaMemsetAsync");
  if (call.error() != cudaSuccess) return call.error();
  if (bytes == 0) return cudaSuccess;
  if (owner_of(to, bytes) != Owner::device) return answer(cudaErrorInvalidValue);
  const auto queue = find_stream(stream);
  if (!queue) return answer(cudaErrorInvalidResourceHandle);
  if (!books_only())
    queue->append(StreamQueue::Kind::work,
                  recorded_memset(value, bytes, queue->id(), [=] { std::memset(to, value, bytes); }));
  return cudaSuccess;
}
