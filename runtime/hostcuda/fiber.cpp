// fiber.cpp - runs the threads of a block as fibers on one thread of the machine, with real barriers and shuffles, so
// that a kernel's parallel logic can be verified without a GPU, in an order that the test chooses.
//
// A fiber executes threads one after another for as long as they do not wait: a kernel without barriers costs one stack
// and no switches. At a barrier the fiber picks what runs next itself (symmetric switching): a released fiber, else a
// fresh stack for the next thread that has not started. A barrier that some threads cannot reach, or reach at different
// places, is an error that names thread and line.
#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/device.h"
#include "runtime/hostcuda/run_block.h"
#include "runtime/hostcuda/sanitizers.h"

namespace spillway::hostcuda {
namespace ctx = boost::context;

__thread uint3 t_thread_index;
__thread dim3* t_block;

namespace {
#if defined(SPILLWAY_ASAN)
// With a guard page. A stack is given back clean: whatever is mapped at its address next is not a stack's red zone.
struct Stack {
  ctx::protected_fixedsize_stack memory;
  explicit Stack(std::size_t bytes) : memory(bytes) {}
  ctx::stack_context allocate() { return memory.allocate(); }
  void deallocate(ctx::stack_context& sc) noexcept {
    __asan_unpoison_memory_region(static_cast<char*>(sc.sp) - sc.size, sc.size);
    memory.deallocate(sc);
  }
};
#else
using Stack = ctx::fixedsize_stack;
#endif

[[maybe_unused]] char g_grid_end;  // TSan: what the threads of a grid release and the launcher acquires
constexpr std::size_t kStackBytes = 128 * 1024;
constexpr int kMain = -1, kNone = -2;
struct BlockAborted {};

struct Fiber {
  ctx::fiber f;  // the suspended continuation
  int tid = -1;
#ifdef SPILLWAY_ASAN
  void* fake = nullptr;
#endif
  const void* bottom = nullptr;
  std::size_t size = 0;
#ifdef SPILLWAY_TSAN
  void* tsan = nullptr;
#endif
};

std::string at(const Where& w) {
  return std::string(w.file_name()) + ":" + std::to_string(w.line());
}

class BlockRunner {
 public:
  BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  void run_block(dim3 block, std::size_t smem, FunctionRef<void()> body) {
    n_ = static_cast<int>(block.x * block.y * block.z);
#ifdef SPILLWAY_TSAN
    // Every CUDA thread is a TSan thread of its own, with its own stack: no order between threads, or between blocks,
    // but what barriers give. malloc under Ignore resets the shadow of what it returns.
    main_.tsan = __tsan_get_current_fiber();
    Ignore::on();
    drop_fibers();
    for (int i = 0; i < n_; ++i) free_.push_back(new_fiber());
    std::reverse(free_.begin(), free_.end());
#endif
    block_ = block;
    t_block = &block_;
    body_ = &body;
    alive_ = n_;
    next_ = arrived_ = 0;
    aborting_ = false;
    error_.clear();
    ready_.clear();
    at_barrier_.assign(u(n_), kNone);
    where_.resize(u(n_));
    warps_.assign(u((n_ + 31) / 32), Warp{});
    for (int t = 0; t < n_; ++t) warps_[u(t / 32)].alive |= 1u << (t % 32);
    slots_.assign(u(n_) * 2, 0);
    parity_.assign(u(n_), 0);
    ++epoch_;
    prepare_shared(smem);
    make_order();
#ifdef SPILLWAY_TSAN
    main_.tsan = __tsan_get_current_fiber();
    Ignore::off();
#endif
    switch_to(kMain, take_free());
    if (!error_.empty()) throw std::runtime_error("block " + std::to_string(t_block_index.x) + ": " + error_);
  }

  // ---- called from fibers ------------------------------------------------------------------------------------------
  void barrier(const Where& w) {
    const int tid = fibs_[u(current_)]->tid;
    where_[u(tid)] = w;
    at_barrier_[u(tid)] = current_;
    ++arrived_;
#ifdef SPILLWAY_TSAN
    char* sync = &barrier_sync_[phase_ & 1];
    __tsan_release(sync);
#endif
    if (arrived_ == alive_) release_barrier();
    wait();
#ifdef SPILLWAY_TSAN
    __tsan_acquire(sync);
#endif
  }

  void warp_barrier(unsigned mask, [[maybe_unused]] bool orders_memory, const Where& w) {
    const int tid = fibs_[u(current_)]->tid, lane = tid % 32;
    Warp& wp = warps_[u(tid / 32)];
    where_[u(tid)] = w;
    if (!(mask >> lane & 1u)) abort_block("thread " + std::to_string(tid) + " is not in its own mask at " + at(w));
    wp.arrived |= 1u << lane;
    wp.mask[lane] = mask;
    wp.fib[lane] = current_;
#ifdef SPILLWAY_TSAN
    char* sync = &warp_sync_[u(tid / 32) * 2 + (wp.phase & 1)];
    if (orders_memory) __tsan_release(sync);  // a shuffle orders no memory; __syncwarp does
#endif
    try_release_warp(wp, mask);
    wait();
#ifdef SPILLWAY_TSAN
    if (orders_memory) __tsan_acquire(sync);
#endif
  }

  std::uint64_t shuffle(unsigned mask, std::uint64_t v, int src, const Where& w) {
    const int tid = fibs_[u(current_)]->tid;
    const int par = parity_[u(tid)] ^= 1;
    slot(par, tid) = v;  // two slots a lane: a lane is at most one shuffle ahead of the lanes it meets
    warp_barrier(mask, false, w);
    const int from = tid / 32 * 32 + src;
    if (src < 0 || src > 31 || from >= n_ || !(mask >> src & 1u)) return ~std::uint64_t{0};  // undefined in CUDA
    return slot(par, from);
  }

  int tid() const { return fibs_[u(current_)]->tid; }
  int threads() const { return n_; }
  void* dyn_shared() { return dyn_.get(); }

  void* static_shared(const void* site, std::size_t bytes) {
    Site& s = sites_[site];
    if (s.epoch != epoch_) {  // first touch ever
      s.epoch = epoch_;
      s.bytes = bytes;
      s.p.reset(std::malloc(bytes));
      std::memset(s.p.get(), 0xff, bytes);
#ifdef SPILLWAY_TSAN
      __tsan_release(&s);
#endif
    }
#ifdef SPILLWAY_TSAN
    __tsan_acquire(&s);
#endif
    return s.p.get();
  }

  ~BlockRunner() { drop_fibers(); }

 private:
  struct Warp {
    unsigned alive = 0, arrived = 0, phase = 0;
    unsigned mask[32];
    int fib[32];
  };
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  using Memory = std::unique_ptr<void, Free>;
  struct Site {
    Memory p;
    std::size_t bytes = 0;
    std::uint64_t epoch = 0;
  };

  static constexpr std::size_t u(int i) { return static_cast<std::size_t>(i); }
  std::uint64_t& slot(int par, int tid) { return slots_[u(par * n_ + tid)]; }
  Fiber& fib(int id) { return id == kMain ? main_ : *fibs_[u(id)]; }

  void drop_fibers() {
    quitting_ = true;
    for (int id : free_) switch_to(kMain, id);  // each parked fiber returns, which frees its stack
    quitting_ = false;
#ifdef SPILLWAY_TSAN
    for (auto& f : fibs_) __tsan_destroy_fiber(f->tsan);
#endif
    free_.clear();
    fibs_.clear();
  }

  void make_order() {
    order_.resize(u(n_));
    for (int i = 0; i < n_; ++i) order_[u(i)] = i;
    const auto& o = fiber_options();
    if (o.order == FiberOrder::reversed) std::reverse(order_.begin(), order_.end());
    if (o.order == FiberOrder::shuffled) {
      rng_.seed(o.seed * 0x9e3779b97f4a7c15ull + t_block_index.x + 65536ull * t_block_index.y);
      std::shuffle(order_.begin(), order_.end(), rng_);
    }
  }

  // Released fibers, given in ascending thread order, join the ready list (popped from the back) in the chosen order.
  void release(std::vector<int>& fibs) {
    switch (fiber_options().order) {
      case FiberOrder::forward:
        ready_.insert(ready_.end(), fibs.rbegin(), fibs.rend());
        break;
      case FiberOrder::shuffled:
        std::shuffle(fibs.begin(), fibs.end(), rng_);
        [[fallthrough]];
      case FiberOrder::reversed:
        ready_.insert(ready_.end(), fibs.begin(), fibs.end());
        break;
    }
    fibs.clear();
  }

  void release_barrier() {
    const int first = first_waiting();
    for (int t = first; t < n_; ++t) {
      if (at_barrier_[u(t)] == kNone) continue;
      if (where_[u(t)].line() != where_[u(first)].line())
        note("divergent barrier: threads of one block met at " + at(where_[u(first)]) + " and at " + at(where_[u(t)]));
      released_.push_back(at_barrier_[u(t)]);
      at_barrier_[u(t)] = kNone;
    }
    arrived_ = 0;
    ++phase_;
    release(released_);
  }
  int first_waiting() const {
    int t = 0;
    while (at_barrier_[u(t)] == kNone) ++t;
    return t;
  }

  void try_release_warp(Warp& wp, unsigned mask) {
    const unsigned need = mask & wp.alive;
    if (need == 0 || (wp.arrived & need) != need) return;
    for (int l = 0; l < 32; ++l) {
      if (!(need >> l & 1u)) continue;
      if (wp.mask[l] != mask) return released_.clear();
      released_.push_back(wp.fib[l]);
    }
    wp.arrived &= ~need;
    ++wp.phase;
    release(released_);
  }

  void on_exit(int tid) {
    --alive_;
    Warp& wp = warps_[u(tid / 32)];
    wp.alive &= ~(1u << (tid % 32));
    if (arrived_ > 0 && !aborting_) {
      note("thread " + std::to_string(tid) + " exited while others wait at the barrier " +
           at(where_[u(first_waiting())]));
      if (arrived_ == alive_) release_barrier();
    }
    if (wp.arrived && !aborting_)
      for (int l = 0; l < 32; ++l)
        if (wp.arrived >> l & 1u) {
          try_release_warp(wp, wp.mask[l]);
          break;
        }
  }

  void note(std::string s) {
    if (error_.empty()) error_ = std::move(s);
  }
  // Every waiting thread is woken and leaves its kernel by an exception.
  void abort_block(std::string s) {
    note(std::move(s));
    aborting_ = true;
    next_ = n_;
    ready_.clear();
    alive_ = 0;
    for (std::size_t i = 0; i < fibs_.size(); ++i)
      if (fibs_[i]->tid >= 0) {
        ++alive_;
        if (static_cast<int>(i) != current_) ready_.push_back(static_cast<int>(i));
      }
    if (fibs_[u(current_)]->tid >= 0) throw BlockAborted{};
  }
  void deadlock() {
    std::string s = "deadlock:";
    int shown = 0;
    for (auto& f : fibs_)
      if (f->tid >= 0 && ++shown <= 3)
        s += " thread " + std::to_string(f->tid) + " waits at " + at(where_[u(f->tid)]) + ";";
    abort_block(s);
  }

  int new_fiber() {
    const int id = static_cast<int>(fibs_.size());
    fibs_.push_back(std::make_unique<Fiber>());
    Fiber& fb = *fibs_.back();
#ifdef SPILLWAY_TSAN
    fb.tsan = __tsan_create_fiber(0);
#endif
    Stack alloc(kStackBytes);
    ctx::stack_context sc = alloc.allocate();
    fb.bottom = static_cast<char*>(sc.sp) - sc.size;
    fb.size = sc.size;
    // Stacks of one size start in the same cache set: step their tops.
    const std::size_t shift = u(id) * 192 % 4096;
    fb.f = ctx::fiber(std::allocator_arg, ctx::preallocated(static_cast<char*>(sc.sp) - shift, sc.size - shift, sc),
                      alloc, [this, id](ctx::fiber&& from) {
                        landed(std::move(from), id);
                        return fiber_main(id);
                      });
    return id;
  }
  int take_free() {
    if (free_.empty()) return new_fiber();
    const int f = free_.back();
    free_.pop_back();
    return f;
  }

  // The next thing to run for a fiber that cannot go on.
  int pick() {
    const bool fresh = next_ < n_;
    if (!ready_.empty() && !(fresh && fiber_options().order == FiberOrder::shuffled && (rng_() & 1))) {
      const int f = ready_.back();
      ready_.pop_back();
      return f;
    }
    return fresh ? take_free() : kMain;
  }

  void wait() {
    const int self = current_;
    int to = pick();
    if (to == kMain) {
      deadlock();
    }
    if (to != self) switch_to(self, to);
    if (aborting_) throw BlockAborted{};
    restore(self);
  }

  void restore(int id) {
    const unsigned t = static_cast<unsigned>(fibs_[u(id)]->tid);
    t_thread_index.x = t % block_.x;
    t_thread_index.y = t / block_.x % block_.y;
    t_thread_index.z = t / block_.x / block_.y;
  }

  ctx::fiber fiber_main(int id) {
    Fiber& me = *fibs_[u(id)];
    Ignore::on();
    while (!quitting_) {
      while (next_ < n_ && ready_.empty()) {
        me.tid = order_[u(next_++)];
        restore(id);
        Ignore::off();
        try {
          (*body_)();
        } catch (const BlockAborted&) {
        } catch (const std::exception& e) {
          note("thread " + std::to_string(me.tid) + ": " + e.what());
        }
        Ignore::on();
        const int t = me.tid;
        me.tid = -1;
        on_exit(t);
#ifdef SPILLWAY_TSAN
        __tsan_release(&g_grid_end);
        break;
#endif
      }
      int to = pick();
      if (to == kMain && alive_ > 0) {
        deadlock();
        to = pick();
      }
#ifdef SPILLWAY_TSAN
      free_.insert(free_.begin(), id);  // taken from the back: not used again in this block
#else
      free_.push_back(id);
#endif
      switch_to(id, to);
    }
    Ignore::off();
#ifdef SPILLWAY_ASAN
    __sanitizer_start_switch_fiber(nullptr, main_.bottom, main_.size);
#endif
#ifdef SPILLWAY_TSAN
    __tsan_switch_to_fiber(main_.tsan, 0);
#endif
    prev_ = id;
    return std::move(main_.f);
  }

  // Leaves `self` (whoever runs next stores its continuation) and runs `to`.
  void switch_to(int self, int to) {
    Fiber& t = fib(to);
    prev_ = self;
#ifdef SPILLWAY_ASAN
    __sanitizer_start_switch_fiber(&fib(self).fake, t.bottom, t.size);
#endif
#ifdef SPILLWAY_TSAN
    __tsan_switch_to_fiber(t.tsan, quitting_ ? 0 : __tsan_switch_to_fiber_no_sync);
#endif
    ctx::fiber from = std::move(t.f).resume();
    landed(std::move(from), self);
  }

  void landed(ctx::fiber&& from, int self) {
    Fiber& p = fib(prev_);
#ifdef SPILLWAY_ASAN
    const void* b = nullptr;
    std::size_t s = 0;
    __sanitizer_finish_switch_fiber(fib(self).fake, &b, &s);
    if (prev_ == kMain) {
      main_.bottom = b;
      main_.size = s;
    }
#endif
    p.f = std::move(from);
    current_ = self;
  }

  void prepare_shared(std::size_t bytes) {
#if defined(SPILLWAY_ASAN) || defined(SPILLWAY_TSAN)
    constexpr bool fresh = true;  // the sanitizers forget the last block's accesses, and know the exact size
#else
    constexpr bool fresh = false;
#endif
    if (fresh || bytes > dyn_size_) {
      dyn_.reset();
      dyn_.reset(bytes ? std::malloc(bytes) : nullptr);
      dyn_size_ = bytes;
    }
    if (bytes) std::memset(dyn_.get(), 0xff, bytes);
    for (auto& [k, s] : sites_) {
      if (fresh) {
        s.p.reset();
        s.p.reset(std::malloc(s.bytes));
      }
      s.epoch = epoch_;
      std::memset(s.p.get(), 0xff, s.bytes);
    }
  }

  int n_ = 0, alive_ = 0, next_ = 0, arrived_ = 0, current_ = kMain, prev_ = kMain;
  unsigned phase_ = 0;
  bool aborting_ = false, quitting_ = false;
  dim3 block_;
  FunctionRef<void()>* body_ = nullptr;
  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibs_;
  std::vector<int> free_, ready_, at_barrier_, released_, order_;
  std::vector<char> parity_;
  std::vector<Where> where_;
  std::vector<Warp> warps_;
  std::vector<std::uint64_t> slots_;
  std::mt19937_64 rng_;
  std::string error_;
  std::unordered_map<const void*, Site> sites_;
  std::uint64_t epoch_ = 0;
  Memory dyn_;
  std::size_t dyn_size_ = 0;
  [[maybe_unused]] char barrier_sync_[2], warp_sync_[64];
};

thread_local std::unique_ptr<BlockRunner> t_owner;
__thread BlockRunner* t_runner;
}  // namespace

void block_barrier(Where where) {
  const Ignore ignore;
  t_runner->barrier(where);
}
void warp_barrier(unsigned mask, Where where) {
  const Ignore ignore;
  t_runner->warp_barrier(mask, true, where);
}
std::uint64_t exchange_lanes(unsigned mask, std::uint64_t bits, int source, Where where) {
  const Ignore ignore;
  return t_runner->shuffle(mask, bits, source, where);
}
int lane() {
  return t_runner->tid() % 32;
}
void* dynamic_shared() {
  return t_runner->dyn_shared();
}
void* static_shared(const void* site, std::size_t bytes) {
  const Ignore ignore;
  return t_runner->static_shared(site, bytes);
}

bool valid_block(dim3 block) {
  const std::uint64_t n = std::uint64_t{block.x} * block.y * block.z;
  return n >= 1 && n <= 1024 && (n < 32 ? (n & (n - 1)) == 0 : n % 32 == 0);
}

void run_block(dim3 block, std::size_t shared_bytes, FunctionRef<void()> body) {
  if (!t_owner) t_owner = std::make_unique<BlockRunner>();
  t_runner = t_owner.get();
  t_runner->run_block(block, shared_bytes, body);
}

void finish_grid() {
#ifdef SPILLWAY_TSAN
  __tsan_acquire(&g_grid_end);
#endif
}

}  // namespace spillway::hostcuda
