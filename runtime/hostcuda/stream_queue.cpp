// stream_queue.cpp - see stream_queue.h.
#include "runtime/hostcuda/stream_queue.h"

#include <exception>
#include <utility>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/flush_denormals.h"
#include "runtime/hostcuda/slowness.h"

namespace spillway::hostcuda {

StreamQueue::StreamQueue(int number) : number_(number), head_(std::make_unique<Task>()) {
  tail_ = head_.get();
  thread_ = std::thread([this] { loop(); });
}

StreamQueue::~StreamQueue() {
  append(Kind::order, [this] { stop_ = true; });
  thread_.join();
}

std::uint32_t StreamQueue::append(Kind kind, std::function<void()> run) {
  auto task = std::make_unique<Task>();
  task->run = std::move(run);
  task->kind = kind;
  const std::lock_guard lock(hosts_);
  Task* before = std::exchange(tail_, task.get());
  before->next = std::move(task);
  before->has_next.store(true, std::memory_order_release);
  submitted_.store(++count_);
  return count_;
}

void StreamQueue::drain() const {
  std::uint32_t all = 0;
  {
    const std::lock_guard lock(hosts_);
    all = count_;
  }
  wait_for(all);
}

void StreamQueue::loop() {
  flush_denormals();
  for (std::uint32_t done = 0; !stop_; done_.store(++done)) {
    submitted_.wait_unordered(done + 1);
    while (!head_->has_next.load(std::memory_order_acquire)) std::this_thread::yield();
    head_ = std::move(head_->next);
    run(*head_);
  }
}

void StreamQueue::run(Task& task) const {
  if (task.kind == Kind::work) sleep_if_delayed(number_);
  if (task.kind == Kind::order || sticky_error() == cudaSuccess) {
    try {
      task.run();
    } catch (const std::exception& e) {
      fail_sticky(cudaErrorLaunchFailure, e.what());
    } catch (...) {
      fail_sticky(cudaErrorLaunchFailure, "a kernel threw what is no std::exception");
    }
  }
  task.run = nullptr;  // what it holds is given back before the host hears that it is done
}

}  // namespace spillway::hostcuda
