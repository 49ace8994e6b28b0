// stream.cpp - CUDA's calls on streams, over the queues of stream_queue.h.
#include "runtime/hostcuda/stream.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/slowness.h"
#include "runtime/hostcuda/stream_queue.h"

struct CUstream_st : spillway::hostcuda::StreamQueue {
  using StreamQueue::StreamQueue;
};

namespace spillway::hostcuda {
namespace {

using StreamOwner = std::shared_ptr<CUstream_st>;  // shared with whoever is waiting for it just now

// Every live stream. The legacy default stream is made when first used.
struct Streams {
  std::mutex mutex;
  std::vector<StreamOwner> live;
  StreamOwner legacy;
  int created = 0;
};
Streams& streams() {
  static Streams& all = *new Streams;  // never destroyed, see call.cpp: work left in a queue ends with the program
  return all;
}

std::atomic<bool> g_books_only{false};

}  // namespace

void set_books_only(bool on) {
  g_books_only.store(on, std::memory_order_relaxed);
}
bool books_only() {
  return g_books_only.load(std::memory_order_relaxed);
}

std::shared_ptr<StreamQueue> find_stream(cudaStream_t handle) {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  if (!handle) {
    constexpr int kNumber = 1 << 20;  // no delay_stream number reaches it
    if (!all.legacy) all.legacy = std::make_shared<CUstream_st>(kNumber);
    return all.legacy;
  }
  const auto it = std::find_if(all.live.begin(), all.live.end(), [=](const auto& s) { return s.get() == handle; });
  return it == all.live.end() ? nullptr : *it;
}

void drain_all_streams() {
  std::vector<StreamOwner> all;
  {
    const std::lock_guard lock(streams().mutex);  // not while waiting: another thread may have to feed a stream
    all = streams().live;
    if (streams().legacy) all.push_back(streams().legacy);
  }
  for (const StreamOwner& stream : all) stream->drain();
}

cudaError_t append_kernel(cudaStream_t handle, const KernelWork& work, std::function<void()> task) {
  const auto stream = find_stream(handle);
  if (!stream) return answer(cudaErrorInvalidResourceHandle);
  sleep_if_host_is_delayed();
  if (!books_only()) stream->append(StreamQueue::Kind::work, recorded_kernel(work, stream->id(), std::move(task)));
  return cudaSuccess;
}

cudaError_t enqueue(const char* function, const char* name, cudaStream_t stream, std::function<void()> task) {
  const Call call(function);
  if (call.error() != cudaSuccess) return call.error();
  return append_kernel(stream, {name, dim3(), dim3(), 0}, std::move(task));
}

}  // namespace spillway::hostcuda

using namespace spillway::hostcuda;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Call call("cudaStreamCreateWithFlags");
  if (call.error() != cudaSuccess) return call.error();
  // A stream that the legacy default stream waits for is not implemented, so it cannot be had.
  if (!stream || flags != cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  all.live.push_back(std::make_shared<CUstream_st>(all.created++));
  *stream = all.live.back().get();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call("cudaStreamDestroy");
  Streams& all = streams();
  StreamOwner gone;
  {
    const std::lock_guard lock(all.mutex);
    const auto it = std::find_if(all.live.begin(), all.live.end(), [=](const auto& s) { return s.get() == stream; });
    if (it == all.live.end()) return answer(cudaErrorInvalidResourceHandle);
    gone = std::move(*it);
    all.live.erase(it);
    if (all.live.empty()) all.created = 0;  // so that a fault names the same stream in every run
  }
  gone->drain();
  return call.error();
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Call call("cudaStreamSynchronize");
  if (call.error() != cudaSuccess) return call.error();
  const auto stream = find_stream(handle);
  if (!stream) return answer(cudaErrorInvalidResourceHandle);
  const WaitRecord wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, stream->id());
  stream->drain();
  return answer(sticky_error());  // of the work waited for
}

cudaError_t cudaDeviceSynchronize() {
  const Call call("cudaDeviceSynchronize");
  if (call.error() != cudaSuccess) return call.error();
  const WaitRecord wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, kNoStream);
  drain_all_streams();
  return answer(sticky_error());
}

// The host's work and not the device's: it runs in books-only mode too.
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* user_data) {
  const Call call("cudaLaunchHostFunc");
  if (call.error() != cudaSuccess) return call.error();
  if (!function) return answer(cudaErrorInvalidValue);
  const auto stream = find_stream(handle);
  if (!stream) return answer(cudaErrorInvalidResourceHandle);
  stream->append(StreamQueue::Kind::work, [=] { function(user_data); });
  return cudaSuccess;
}
