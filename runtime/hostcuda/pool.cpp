// pool.cpp - see pool.h. Kernels come back to back, so workers spin for a moment before they sleep. A job does not wait
// for a worker that has not come: on a machine whose processors are busy (a copy stream has one) the stream's own
// thread does all the work meanwhile.
#include "runtime/hostcuda/pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/flush_denormals.h"
#include "runtime/hostcuda/stream_queue.h"

namespace spillway::hostcuda {
namespace {

constexpr int kSpins = 4000;  // tens of microseconds

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

class Pool {
 public:
  explicit Pool(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { loop(); });
    } catch (const std::system_error& e) {
      const std::size_t started = workers_.size();
      stop();
      throw std::runtime_error("thread " + std::to_string(started + 2) + " of a pool of " + std::to_string(threads) +
                               " cannot be started (" + e.code().message() +
                               "): ask for fewer, or raise the limit on processes");
    }
  }
  ~Pool() { stop(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  int size() const { return static_cast<int>(workers_.size()) + 1; }

  void run(std::size_t n, std::size_t chunk, FunctionRef<void(std::size_t)> f) {
    if (workers_.empty() || n <= chunk) {
      for (std::size_t i = 0; i < n; ++i) f(i);
      return;
    }
    const std::lock_guard one_job(jobs_);
    job_ = &f;
    n_ = n;
    chunk_ = chunk;
    next_.store(0, std::memory_order_relaxed);
    {
      const std::lock_guard lock(mutex_);
      door_.store((door_.load(std::memory_order_relaxed) / kJob + 1) * kJob, std::memory_order_release);
    }
    wake_.notify_all();
    work();
    door_.fetch_or(kClosed, std::memory_order_relaxed);
    for (int spin = 0; (door_.load(std::memory_order_acquire) & kInside) != 0; ++spin)
      spin < kSpins ? relax() : std::this_thread::yield();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // A job's door, in one word: how many workers are inside, whether it is closed, and the number of the job.
  static constexpr std::uint64_t kInside = 0xffff, kClosed = 0x10000, kJob = 0x20000;

  // Enters the job that is open, if there is one; `seen`: the job that this worker looked at last.
  bool enter(std::uint64_t& seen) {
    for (std::uint64_t door = door_.load(std::memory_order_relaxed);;) {
      seen = door / kJob;
      if ((door & kClosed) != 0) return false;
      if (door_.compare_exchange_weak(door, door + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
  }

  void work() {
    try {
      for (;;) {
        const std::size_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
        if (begin >= n_) break;
        const std::size_t end = std::min(begin + chunk_, n_);
        for (std::size_t i = begin; i < end; ++i) (*job_)(i);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_.store(n_, std::memory_order_relaxed);
    }
  }

  void loop() {
    flush_denormals();
    std::uint64_t seen = 0;
    const auto unseen = [&] { return door_.load(std::memory_order_relaxed) / kJob != seen; };
    for (;;) {
      for (int spin = 0; spin < kSpins && !unseen(); ++spin) relax();
      if (!unseen()) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || unseen(); });
        if (stop_) return;
      }
      if (!enter(seen)) continue;
      work();
      door_.fetch_sub(1, std::memory_order_release);
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
    workers_.clear();
  }

  std::vector<std::thread> workers_;
  std::mutex jobs_;   // one job at a time
  std::mutex mutex_;  // error_, stop_, and every change of the job's number
  std::condition_variable wake_;
  std::atomic<std::uint64_t> door_{kClosed};
  std::atomic<std::size_t> next_{0};
  FunctionRef<void(std::size_t)>* job_ = nullptr;
  std::size_t n_ = 0, chunk_ = 1;
  std::exception_ptr error_;
  bool stop_ = false;
};

// The processors that this process may use.
int processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::unique_ptr<Pool>& pool() {
  static auto& p = *new auto(std::make_unique<Pool>(processors()));  // never destroyed, see call.cpp
  return p;
}

}  // namespace

void set_pool_threads(int threads) {
  constexpr int kMost = 1024;
  if (threads < 1 || threads > kMost)
    throw std::invalid_argument("a pool of " + std::to_string(threads) + " threads: must be 1 to " +
                                std::to_string(kMost));
  drain_all_streams();
  pool().reset();
  pool() = std::make_unique<Pool>(threads);
}
int pool_threads() {
  return pool()->size();
}
void parallel_for(std::size_t n, std::size_t chunk, FunctionRef<void(std::size_t)> f) {
  pool()->run(n, chunk, f);
}

}  // namespace spillway::hostcuda
