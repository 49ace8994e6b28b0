// stream.cpp - a stream is an in-order queue with a thread of its own. The queue is a linked list: hosts append at the
// tail (under a lock that only hosts take), the thread walks from the head and never takes a lock, so that running a
// task orders nothing but what CUDA says: launch before task, task before whoever waits for it.
#include "runtime/hostcuda/stream.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/flush_denormals.h"
#include "runtime/hostcuda/futex.h"

namespace spillway::hostcuda {
namespace {

struct Task {
  std::function<void()> run;
  bool delayed = true;  // an event or a wait is not work: delays do not touch it
  std::atomic<Task*> next{nullptr};
};

}  // namespace
}  // namespace spillway::hostcuda

struct CUstream_st {
  explicit CUstream_st(int number) : index(number), head_(new spillway::hostcuda::Task), tail_(head_) {
    thread_ = std::thread([this] { loop(); });
  }
  ~CUstream_st() {  // drains
    append([this] { stop_ = true; }, false);
    thread_.join();
    delete head_;
  }
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  void append(std::function<void()> run, bool delayed) {
    auto* task = new spillway::hostcuda::Task;  // owned by the list: the thread deletes what it has passed
    task->run = std::move(run);
    task->delayed = delayed;
    const std::lock_guard lock(hosts_);
    tail_->next.store(task, std::memory_order_release);
    tail_ = task;
    submitted_.store(++count_);
  }
  // Waits until everything appended so far is done.
  void drain() const {
    std::uint32_t all = 0;
    {
      const std::lock_guard lock(hosts_);
      all = count_;
    }
    done_.wait_for(all);
  }

  const int index;  // number of the stream, from 0 in order of creation

 private:
  void loop() {
    spillway::hostcuda::flush_denormals();
    for (std::uint32_t done = 0; !stop_;) {
      spillway::hostcuda::Task* task = nullptr;
      for (;;) {
        const std::uint32_t seen = submitted_.load();
        task = head_->next.load(std::memory_order_acquire);
        if (task) break;
        submitted_.sleep_while(seen);
      }
      delete head_;
      head_ = task;
      if (task->delayed) spillway::hostcuda::sleep_if_delayed(index);
      try {
        task->run();
      } catch (const std::exception& e) {
        spillway::hostcuda::fail_sticky(cudaErrorLaunchFailure, e.what());
      }
      task->run = nullptr;
      done_.store(++done);
    }
  }

  mutable std::mutex hosts_;
  std::uint32_t count_ = 0;  // under hosts_
  spillway::hostcuda::Counter submitted_, done_;
  spillway::hostcuda::Task* head_;  // the thread's: the task run last
  spillway::hostcuda::Task* tail_;  // under hosts_
  bool stop_ = false;               // the thread's
  std::thread thread_;
};

// One point in a stream, recorded again and again: each record has a number, and `done` tells the last that was
// reached.
struct CUevent_st {
  struct State {
    spillway::hostcuda::Counter done;
    std::atomic<std::int64_t> time_ns{0};
  };
  std::shared_ptr<State> state = std::make_shared<State>();  // outlives the event while a stream still refers to it
  std::uint32_t recorded = 0;
  bool timing = true;
};

namespace spillway::hostcuda {
namespace {

// Every live stream, for cudaDeviceSynchronize. The legacy default stream is one of them, made when first used.
struct Streams {
  std::mutex mutex;
  std::vector<std::unique_ptr<CUstream_st>> live;
  std::unique_ptr<CUstream_st> legacy;
  int created = 0;
};
Streams& streams() {
  static Streams all;
  return all;
}

// The stream behind a handle; null when there is no such stream.
CUstream_st* resolve(cudaStream_t handle) {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  if (!handle) {
    if (!all.legacy) all.legacy = std::make_unique<CUstream_st>(1 << 20);  // no delay_stream number reaches it
    return all.legacy.get();
  }
  for (const auto& s : all.live)
    if (s.get() == handle) return handle;
  return nullptr;
}

std::atomic<bool> g_books_only{false};

}  // namespace

void set_books_only(bool on) {
  g_books_only.store(on, std::memory_order_relaxed);
}
bool books_only() {
  return g_books_only.load(std::memory_order_relaxed);
}

cudaError_t enqueue(const char* function, cudaStream_t handle, std::function<void()> task) {
  if (const cudaError_t e = enter(function); e != cudaSuccess) return e;
  CUstream_st* stream = resolve(handle);
  if (!stream) return answer(cudaErrorInvalidResourceHandle);
  if (!books_only()) stream->append(std::move(task), true);
  return cudaSuccess;
}

}  // namespace spillway::hostcuda

using namespace spillway::hostcuda;

// ---- streams
// ----------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t e = enter("cudaStreamCreateWithFlags"); e != cudaSuccess) return e;
  if (!stream || flags != cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  all.live.push_back(std::make_unique<CUstream_st>(all.created++));
  *stream = all.live.back().get();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::unique_ptr<CUstream_st> gone;
  Streams& all = streams();
  {
    const std::lock_guard lock(all.mutex);
    const auto it = std::find_if(all.live.begin(), all.live.end(), [&](auto& s) { return s.get() == stream; });
    if (it == all.live.end()) return answer(cudaErrorInvalidResourceHandle);
    gone = std::move(*it);
    all.live.erase(it);
    if (all.live.empty()) all.created = 0;  // numbers start over, so that a fault names the same stream in every run
  }
  gone.reset();                       // drains
  return enter("cudaStreamDestroy");  // last: also when the context is lost, nothing leaks
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  if (const cudaError_t e = enter("cudaStreamSynchronize"); e != cudaSuccess) return e;
  CUstream_st* stream = resolve(handle);
  if (!stream) return answer(cudaErrorInvalidResourceHandle);
  stream->drain();
  return answer(cudaPeekAtLastError() == cudaErrorLaunchFailure ? cudaErrorLaunchFailure : cudaSuccess);
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t e = enter("cudaDeviceSynchronize"); e != cudaSuccess) return e;
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  for (const auto& s : all.live) s->drain();
  if (all.legacy) all.legacy->drain();
  return answer(cudaPeekAtLastError() == cudaErrorLaunchFailure ? cudaErrorLaunchFailure : cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  if (!function) return answer(cudaErrorInvalidValue);
  return enqueue("cudaLaunchHostFunc", stream, [=] { function(user_data); });
}

// ---- events
// -----------------------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t e = enter("cudaEventCreateWithFlags"); e != cudaSuccess) return e;
  if (!event || (flags & ~cudaEventDisableTiming) != 0) return answer(cudaErrorInvalidValue);
  auto made = std::make_unique<CUevent_st>();
  made->timing = (flags & cudaEventDisableTiming) == 0;
  *event = made.release();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return answer(cudaErrorInvalidResourceHandle);
  const std::unique_ptr<CUevent_st> gone(event);  // before enter(): also when the context is lost, nothing leaks
  return enter("cudaEventDestroy");
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  if (const cudaError_t e = enter("cudaEventRecord"); e != cudaSuccess) return e;
  CUstream_st* stream = resolve(handle);
  if (!event || !stream) return answer(cudaErrorInvalidResourceHandle);
  const std::uint32_t number = ++event->recorded;
  stream->append(
      [state = event->state, number] {
        state->time_ns.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
        state->done.store(number);
      },
      false);
  return cudaSuccess;
}

// Waits for the record made last before this call; an event never recorded is done.
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  if (const cudaError_t e = enter("cudaStreamWaitEvent"); e != cudaSuccess) return e;
  CUstream_st* stream = resolve(handle);
  if (!event || !stream) return answer(cudaErrorInvalidResourceHandle);
  if (flags != 0) return answer(cudaErrorInvalidValue);
  stream->append([state = event->state, number = event->recorded] { state->done.wait_for(number); }, false);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t e = enter("cudaEventSynchronize"); e != cudaSuccess) return e;
  if (!event) return answer(cudaErrorInvalidResourceHandle);
  event->state->done.wait_for(event->recorded);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  if (const cudaError_t e = enter("cudaEventElapsedTime"); e != cudaSuccess) return e;
  if (!milliseconds) return answer(cudaErrorInvalidValue);
  for (const CUevent_st* event : {start, stop})
    if (!event || !event->timing || event->recorded == 0) return answer(cudaErrorInvalidResourceHandle);
  for (const CUevent_st* event : {start, stop})
    if (event->state->done.load() != event->recorded) return answer(cudaErrorNotReady);
  *milliseconds = static_cast<float>(static_cast<double>(stop->state->time_ns.load(std::memory_order_relaxed) -
                                                         start->state->time_ns.load(std::memory_order_relaxed)) /
                                     1e6);
  return cudaSuccess;
}
