// event.cpp - CUDA's events. Recording an event arms a point in a stream's queue: whoever waits for the event waits for
// that point, and a later record of the same event is another point, which does not move the first.
//
// Points live for the whole program and are armed again when nothing refers to them. Their users are counted without
// ordering the users (no std::shared_ptr): two streams that drop the same event would else be ordered by that, and a
// missing wait between them hidden from ThreadSanitizer.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/stream_queue.h"

namespace {

struct Point {
  std::uint32_t armed = 0;  // how often; the host's
  spillway::hostcuda::Counter reached;
  std::atomic<std::int64_t> time_ns{0};
  std::atomic<int> users{0};  // tasks in queues that refer to it

  bool idle() const { return users.load(std::memory_order_relaxed) == 0; }
  void take() { users.fetch_add(1, std::memory_order_relaxed); }
  void drop() { users.fetch_sub(1, std::memory_order_release); }
};

}  // namespace

struct CUevent_st {
  Point* point = nullptr;    // of the last record; null: never recorded
  std::uint32_t number = 0;  // what `reached` is from that record on
  bool timing = true;
};

namespace {

struct Events {
  std::mutex mutex;  // hosts only
  std::unordered_map<cudaEvent_t, std::unique_ptr<CUevent_st>> live;
  std::deque<Point> points;
  std::vector<Point*> spare;  // points of no event; not all of them idle yet

  CUevent_st* find(cudaEvent_t handle) const {
    const auto it = live.find(handle);
    return it == live.end() ? nullptr : it->second.get();
  }

  void arm(CUevent_st& event) {
    if (event.point && !event.point->idle()) release(event);
    if (!event.point) event.point = idle_point();
    event.number = ++event.point->armed;
  }

  void release(CUevent_st& event) {
    if (event.point) spare.push_back(event.point);
    event.point = nullptr;
  }

 private:
  Point* idle_point() {
    for (Point*& candidate : spare) {
      if (!candidate->idle()) continue;
      Point* point = candidate;
      candidate = spare.back();
      spare.pop_back();
      return point;
    }
    return &points.emplace_back();
  }
};
Events& events() {
  static Events& all = *new Events;  // never destroyed, see call.cpp
  return all;
}

}  // namespace

using namespace spillway::hostcuda;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Call call("cudaEventCreateWithFlags");
  if (call.error() != cudaSuccess) return call.error();
  if (!event || (flags & ~cudaEventDisableTiming) != 0) return answer(cudaErrorInvalidValue);
  auto made = std::make_unique<CUevent_st>();
  made->timing = (flags & cudaEventDisableTiming) == 0;
  *event = made.get();
  const std::lock_guard lock(events().mutex);
  events().live.emplace(*event, std::move(made));
  return cudaSuccess;
}

// A record or wait in a queue is not disturbed.
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const Call call("cudaEventDestroy");
  const std::lock_guard lock(events().mutex);
  CUevent_st* event = events().find(handle);
  if (!event) return answer(cudaErrorInvalidResourceHandle);
  events().release(*event);
  events().live.erase(handle);
  return call.error();
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const Call call("cudaEventRecord");
  if (call.error() != cudaSuccess) return call.error();
  const auto stream = find_stream(stream_handle);
  const std::lock_guard lock(events().mutex);
  CUevent_st* event = events().find(handle);
  if (!event || !stream) return answer(cudaErrorInvalidResourceHandle);
  events().arm(*event);
  event->point->take();
  stream->append(StreamQueue::Kind::order, [point = event->point, number = event->number] {
    const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
    point->time_ns.store(now.count(), std::memory_order_relaxed);
    point->reached.store(number);
    point->drop();
  });
  return cudaSuccess;
}

// Waits for the record made last before this call. There is nothing to wait for when there was none.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  const Call call("cudaStreamWaitEvent");
  if (call.error() != cudaSuccess) return call.error();
  const auto stream = find_stream(stream_handle);
  const std::lock_guard lock(events().mutex);
  const CUevent_st* event = events().find(handle);
  if (!event || !stream) return answer(cudaErrorInvalidResourceHandle);
  if (flags != 0) return answer(cudaErrorInvalidValue);
  if (!event->point) return cudaSuccess;
  event->point->take();
  stream->append(StreamQueue::Kind::order, [point = event->point, number = event->number] {
    point->reached.wait_for(number);
    point->drop();
  });
  return cudaSuccess;
}

// An event that was never recorded has nothing to wait for. "Not ready" is an answer and no error of the thread's.
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const Call call("cudaEventQuery");
  if (call.error() != cudaSuccess) return call.error();
  const std::lock_guard lock(events().mutex);
  const CUevent_st* event = events().find(handle);
  if (!event) return answer(cudaErrorInvalidResourceHandle);
  return !event->point || event->point->reached.reached(event->number) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const Call call("cudaEventSynchronize");
  if (call.error() != cudaSuccess) return call.error();
  CUevent_st event;
  {
    const std::lock_guard lock(events().mutex);
    const CUevent_st* found = events().find(handle);
    if (!found) return answer(cudaErrorInvalidResourceHandle);
    event = *found;
  }
  const WaitRecord wait(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, kNoStream);
  if (event.point) event.point->reached.wait_for(event.number);
  return answer(sticky_error());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t stop_handle) {
  const Call call("cudaEventElapsedTime");
  if (call.error() != cudaSuccess) return call.error();
  if (!milliseconds) return answer(cudaErrorInvalidValue);
  const std::lock_guard lock(events().mutex);
  const CUevent_st *start = events().find(start_handle), *stop = events().find(stop_handle);
  for (const CUevent_st* event : {start, stop})
    if (!event || !event->timing || !event->point) return answer(cudaErrorInvalidResourceHandle);
  for (const CUevent_st* event : {start, stop})
    if (!event->point->reached.reached(event->number)) return answer(cudaErrorNotReady);
  const std::int64_t ns =
      stop->point->time_ns.load(std::memory_order_relaxed) - start->point->time_ns.load(std::memory_order_relaxed);
  *milliseconds = static_cast<float>(static_cast<double>(ns) / 1e6);
  return cudaSuccess;
}
