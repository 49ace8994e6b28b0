// fiber_block.h - runs the threads of a block as fibers on one thread of the machine, with real barriers and shuffles,
// so that a kernel's parallel logic can be verified without a GPU, in an order that the test chooses.
//
// A fiber executes threads one after another for as long as they do not wait: a kernel without barriers costs one stack
// and no switches. At a barrier the fiber itself picks what runs next: a thread that was released, else a fresh stack
// for the next thread that has not started. A barrier that some threads cannot reach, or reach at different places, is
// an error that names thread and line.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/hostcuda/device.h"
#include "runtime/hostcuda/fiber_shared.h"
#include "runtime/hostcuda/fibers.h"
#include "runtime/hostcuda/pool.h"

namespace spillway::hostcuda {

class BlockRunner {
 public:
  BlockRunner() : fibers_([this](int fiber) { live(fiber); }) {}
  ~BlockRunner() { fibers_.drop_all(); }
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Throws std::runtime_error with the first thing that went wrong in the block.
  void run(dim3 block, std::size_t shared_bytes, FunctionRef<void()> body);

  // ---- called by the block's threads -------------------------------------------------------------------------------
  void block_barrier(const Where& where);
  void warp_barrier(unsigned mask, const Where& where);
  std::uint64_t exchange_lanes(unsigned mask, std::uint64_t bits, int source, const Where& where);
  int thread() const { return thread_of_[u(fibers_.current())]; }
  SharedMemory& shared() { return shared_; }

 private:
  static constexpr int kNone = -2;
  struct BlockAborted {};

  struct Thread {
    Where where;             // it waits, or waited last
    int at_barrier = kNone;  // the fiber of a thread that waits at the block's barrier
  };
  // The lanes of a warp meet in groups, each named by its mask.
  struct Warp {
    unsigned alive = 0, arrived = 0;  // lanes
    unsigned meetings = 0;
    struct Lane {
      unsigned mask;
      int fiber;
      bool shuffles;
      int source;
      std::uint64_t gives, gets;
    };
    Lane lanes[32];
  };
  static constexpr std::size_t u(int i) { return static_cast<std::size_t>(i); }
  Warp& warp() { return warps_[u(thread() / 32)]; }

  void begin(dim3 block, std::size_t shared_bytes);
  // What a fiber does with its life: runs threads.
  void live(int fiber);
  void run_thread(int fiber);
  void exited(int thread);
  void enter_thread(int fiber);  // threadIdx

  void wait();
  int pick();
  int take_parked();
  void release(std::vector<int>& fibers);

  void release_barrier();
  int first_at_barrier() const;
  void meet(unsigned mask, bool shuffles, const Where& where);
  void release_lanes(Warp& warp, unsigned mask);

  void note(std::string error);
  void abort(std::string error);
  void abort_deadlock();

  dim3 block_;
  FunctionRef<void()>* body_ = nullptr;
  Fibers fibers_;
  std::vector<int> thread_of_;  // the thread that each fiber runs; kNone: it is parked
  std::vector<int> parked_, ready_, order_, released_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  SharedMemory shared_;
  std::mt19937_64 random_;

  int count_ = 0, alive_ = 0, next_ = 0, arrived_ = 0;  // threads: of the block, not done, to start, at the barrier
  int exited_ = kNone;                                  // the thread that was done last
  bool aborting_ = false;
  std::string error_;  // the first

  unsigned barriers_ = 0;
  // Addresses for ThreadSanitizer: two each, so that a thread that is already at the next barrier does not mix with
  // those still leaving this one.
  [[maybe_unused]] char begin_sync_, barrier_sync_[2], warp_sync_[32][2];
};

}  // namespace spillway::hostcuda
