// stream_queue.h - a stream is an in-order queue with a thread of its own. The queue is a linked list: hosts append at
// the tail, under a lock that only hosts take; the thread walks from the head and takes no lock. So running a task
// orders nothing but what CUDA says: launch before task, task before whoever waits for it.
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/hostcuda/activity.h"
#include "runtime/hostcuda/futex.h"

namespace spillway::hostcuda {

class StreamQueue {
 public:
  // `number` of the stream, from 0 in order of creation: what delay_stream knows it by.
  explicit StreamQueue(int number);
  ~StreamQueue();  // drains
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  // Work of the device can be delayed, and is skipped once the context is lost. Order (an event, a wait) is kept all
  // the same, or whoever waits for it would hang.
  enum class Kind { work, order };
  // Returns the task's position in the queue.
  std::uint32_t append(Kind kind, std::function<void()> run);
  // What a profiler knows the stream by.
  std::uint32_t id() const { return static_cast<std::uint32_t>(number_); }
  // Waits for the task at that position.
  void wait_for(std::uint32_t position) const { done_.wait_for(position); }
  // Waits for everything appended so far.
  void drain() const;

 private:
  struct Task {
    std::function<void()> run;
    Kind kind = Kind::order;
    std::unique_ptr<Task> next;
    // Set after `next`. One flag a task, so that a task comes after its own launch and not after later ones too: a host
    // that writes to pinned memory which a copy in the queue still reads stays a race.
    std::atomic<bool> has_next{false};
  };
  void loop();
  void run(Task& task) const;

  const int number_;
  mutable std::mutex hosts_;
  std::uint32_t count_ = 0;     // tasks appended; under hosts_
  Task* tail_;                  // under hosts_
  std::unique_ptr<Task> head_;  // the thread's: the task run last
  bool stop_ = false;           // the thread's
  Counter submitted_, done_;    // tasks
  std::thread thread_;          // last: it uses all of the above
};

// The stream behind a handle (null: the legacy default stream), or null when there is none. Hosts only.
std::shared_ptr<StreamQueue> find_stream(cudaStream_t handle);
// Waits for every stream.
void drain_all_streams();
// `task` for the stream, with its record for a profiler around it, unless the mode is books-only.
cudaError_t append_kernel(cudaStream_t stream, const KernelWork& work, std::function<void()> task);

}  // namespace spillway::hostcuda
