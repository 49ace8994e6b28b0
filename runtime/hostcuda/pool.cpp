// pool.cpp - see pool.h. Kernels come back to back, so workers spin for a moment before they sleep.
#include "runtime/hostcuda/pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/flush_denormals.h"

namespace spillway::hostcuda {
namespace {

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
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { loop(); });
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      epoch_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
  }
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
    busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    {
      const std::lock_guard lock(mutex_);
      epoch_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    work();
    constexpr int kSpins = 2000;
    for (int spin = 0; busy_.load(std::memory_order_acquire) != 0; ++spin)
      if (spin < kSpins)
        relax();
      else
        std::this_thread::yield();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
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
    constexpr int kSpins = 4000;
    for (unsigned seen = 0;;) {
      for (int spin = 0; spin < kSpins && epoch_.load(std::memory_order_acquire) == seen; ++spin) relax();
      if (epoch_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return epoch_.load(std::memory_order_acquire) != seen; });
      }
      seen = epoch_.load(std::memory_order_acquire);
      if (stop_) return;
      work();
      busy_.fetch_sub(1, std::memory_order_acq_rel);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex jobs_;   // one job at a time
  std::mutex mutex_;  // epoch_, stop_, error_
  std::condition_variable wake_;
  std::atomic<unsigned> epoch_{0};
  std::atomic<std::size_t> next_{0};
  std::atomic<int> busy_{0};
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
  static auto p = std::make_unique<Pool>(processors());
  return p;
}

}  // namespace

void set_pool_threads(int threads) {
  cudaDeviceSynchronize();
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
