// fiber_block.cpp - see fiber_block.h: first how threads take turns, then barriers and shuffles, then what goes wrong.
#include "runtime/hostcuda/fiber_block.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/sanitizers.h"

namespace spillway::hostcuda {

__thread uint3 t_thread_index;
__thread const dim3* t_block;

namespace {

std::string at(const Where& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}
bool same(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() && std::string_view(a.file_name()) == b.file_name();
}

}  // namespace

// ---- turns ----------------------------------------------------------------------------------------------------------

void BlockRunner::run(dim3 block, std::size_t shared_bytes, FunctionRef<void()> body) {
  {
    const Ignore ignore;
    begin(block, shared_bytes);
    body_ = &body;
  }
  fibers_.switch_to(take_parked());
  if (error_.empty()) return;
  const auto& b = t_block_index;
  throw std::runtime_error("block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ", " + std::to_string(b.z) +
                           "): " + error_);
}

void BlockRunner::begin(dim3 block, std::size_t shared_bytes) {
  block_ = block;
  t_block = &block_;
  count_ = alive_ = static_cast<int>(block.x * block.y * block.z);
  next_ = arrived_ = 0;
  exited_ = kNone;
  aborting_ = false;
  error_.clear();
  ready_.clear();
  threads_.assign(u(count_), Thread{});
  warps_.assign(u((count_ + 31) / 32), Warp{});
  for (int t = 0; t < count_; ++t) warps_[u(t / 32)].alive |= 1u << (t % 32);
  shared_.begin(shared_bytes);

  order_.resize(u(count_));
  for (int i = 0; i < count_; ++i) order_[u(i)] = i;
  const FiberOptions& options = fiber_options();
  if (options.order == FiberOrder::reversed) std::reverse(order_.begin(), order_.end());
  if (options.order == FiberOrder::shuffled) {
    random_.seed(options.seed * 0x9e3779b97f4a7c15ull + t_block_index.x + 65536ull * t_block_index.y);
    std::shuffle(order_.begin(), order_.end(), random_);
  }
#ifdef SPILLWAY_TSAN
  // Every CUDA thread of a block is a TSan thread of its own, with a stack of its own: no order between threads but
  // what barriers give. Making one costs a millisecond, so the next block's threads take the same in turn; one more
  // than a block needs, so that equal threads of two blocks in a row are not one.
  while (fibers_.size() <= u(count_)) {
    parked_.insert(parked_.begin(), fibers_.create());
    thread_of_.push_back(kNone);
  }
  __tsan_release(&begin_sync_);
#endif
}

void BlockRunner::live(int fiber) {
  const Ignore ignore;
  while (!fibers_.quitting()) {
    while (next_ < count_ && ready_.empty()) {
      run_thread(fiber);
#ifdef SPILLWAY_TSAN
      break;
#endif
    }
    int to = pick();
    if (to == Fibers::kMain && alive_ > 0) {
      abort_deadlock();
      to = pick();
    }
#ifdef SPILLWAY_TSAN
    parked_.insert(parked_.begin(), fiber);  // taken from the back: not used again in this block
#else
    parked_.push_back(fiber);
#endif
    fibers_.switch_to(to);
  }
}

void BlockRunner::run_thread(int fiber) {
  const int thread = thread_of_[u(fiber)] = order_[u(next_++)];
  enter_thread(fiber);
#ifdef SPILLWAY_TSAN
  __tsan_acquire(&begin_sync_);
#endif
  Ignore::off();
  try {
    (*body_)();
  } catch (const BlockAborted&) {
  } catch (const std::exception& e) {
    note("thread " + std::to_string(thread) + ": " + e.what());
  }
  Ignore::on();
#ifdef SPILLWAY_TSAN
  __tsan_release(const_cast<dim3*>(t_grid));  // see finish_grid
#endif
  thread_of_[u(fiber)] = kNone;
  exited(thread);
}

void BlockRunner::exited(int thread) {
  --alive_;
  exited_ = thread;
  Warp& w = warps_[u(thread / 32)];
  w.alive &= ~(1u << (thread % 32));
  if (aborting_) return;
  if (arrived_ > 0 && arrived_ == alive_) release_barrier();
  for (unsigned lane = 0; lane < 32; ++lane)
    if (w.arrived >> lane & 1u) release_lanes(w, w.lanes[lane].mask);
}

void BlockRunner::enter_thread(int fiber) {
  const auto t = static_cast<unsigned>(thread_of_[u(fiber)]);
  t_thread_index = {t % block_.x, t / block_.x % block_.y, t / block_.x / block_.y};
}

void BlockRunner::wait() {
  const int self = fibers_.current();
  const int to = pick();
  if (to == Fibers::kMain) abort_deadlock();
  if (to != self) fibers_.switch_to(to);
  if (aborting_) throw BlockAborted{};
  enter_thread(self);
}

// What runs next on behalf of a fiber that cannot go on.
int BlockRunner::pick() {
  const bool fresh = next_ < count_;
  const bool rather_fresh = fresh && fiber_options().order == FiberOrder::shuffled && (random_() & 1);
  if (!ready_.empty() && !rather_fresh) {
    const int fiber = ready_.back();
    ready_.pop_back();
    return fiber;
  }
  return fresh ? take_parked() : Fibers::kMain;
}

int BlockRunner::take_parked() {
  if (parked_.empty()) {
    thread_of_.push_back(kNone);
    return fibers_.create();
  }
  const int fiber = parked_.back();
  parked_.pop_back();
  return fiber;
}

// Fibers given in ascending order of their threads join the ready ones, which are taken from the back.
void BlockRunner::release(std::vector<int>& fibers) {
  switch (fiber_options().order) {
    case FiberOrder::forward:
      ready_.insert(ready_.end(), fibers.rbegin(), fibers.rend());
      break;
    case FiberOrder::shuffled:
      std::shuffle(fibers.begin(), fibers.end(), random_);
      [[fallthrough]];
    case FiberOrder::reversed:
      ready_.insert(ready_.end(), fibers.begin(), fibers.end());
      break;
  }
  fibers.clear();
}

// ---- barriers and shuffles ------------------------------------------------------------------------------------------

void BlockRunner::block_barrier(const Where& where) {
  Thread& me = threads_[u(thread())];
  me.where = where;
  me.at_barrier = fibers_.current();
  ++arrived_;
#ifdef SPILLWAY_TSAN
  char* sync = &barrier_sync_[barriers_ & 1];
  __tsan_release(sync);
#endif
  if (arrived_ == alive_) release_barrier();
  wait();
#ifdef SPILLWAY_TSAN
  __tsan_acquire(sync);
#endif
}

int BlockRunner::first_at_barrier() const {
  int t = 0;
  while (threads_[u(t)].at_barrier == kNone) ++t;
  return t;
}

void BlockRunner::release_barrier() {
  const Thread& first = threads_[u(first_at_barrier())];
  if (alive_ < count_)
    note("thread " + std::to_string(exited_) + " exited while others wait at the barrier " + at(first.where));
  for (Thread& t : threads_) {
    if (t.at_barrier == kNone) continue;
    if (!same(t.where, first.where))
      note("divergent barrier: threads of one block met at " + at(first.where) + " and at " + at(t.where));
    released_.push_back(std::exchange(t.at_barrier, kNone));
  }
  arrived_ = 0;
  ++barriers_;
  release(released_);
}

void BlockRunner::warp_barrier(unsigned mask, const Where& where) {
#ifdef SPILLWAY_TSAN
  char* sync = &warp_sync_[thread() / 32][warp().meetings & 1];
  __tsan_release(sync);
#endif
  meet(mask, false, where);
#ifdef SPILLWAY_TSAN
  __tsan_acquire(sync);
#endif
}

// Orders no memory: only __syncwarp and __syncthreads do.
std::uint64_t BlockRunner::exchange_lanes(unsigned mask, std::uint64_t bits, int source, const Where& where) {
  Warp::Lane& me = warp().lanes[thread() % 32];
  me.gives = bits;
  me.source = source;
  meet(mask, true, where);
  return me.gets;
}

void BlockRunner::meet(unsigned mask, bool shuffles, const Where& where) {
  const int thread_index = thread(), lane = thread_index % 32;
  threads_[u(thread_index)].where = where;
  if (!(mask >> lane & 1u)) abort("thread " + std::to_string(thread_index) + " is not in its own mask at " + at(where));
  Warp& w = warp();
  w.arrived |= 1u << lane;
  w.lanes[lane].mask = mask;
  w.lanes[lane].fiber = fibers_.current();
  w.lanes[lane].shuffles = shuffles;
  release_lanes(w, mask);
  wait();
}

// Lets the lanes of `mask` go on if all that are alive have come, each with that mask.
void BlockRunner::release_lanes(Warp& w, unsigned mask) {
  const unsigned needed = mask & w.alive;
  if (needed == 0 || (w.arrived & needed) != needed) return;
  const int base = static_cast<int>(&w - warps_.data()) * 32;
  const Where* place = nullptr;
  for (int l = 0; l < 32; ++l) {
    if (!(needed >> l & 1u)) continue;
    if (w.lanes[l].mask != mask) return;
    const Where& where = threads_[u(base + l)].where;
    if (w.lanes[l].shuffles && place && !same(*place, where))
      note("divergent shuffle: lanes of one warp met at " + at(*place) + " and at " + at(where));
    place = &where;
  }
  for (int l = 0; l < 32; ++l) {
    if (!(needed >> l & 1u)) continue;
    const int source = w.lanes[l].source;
    const bool defined = source >= 0 && source < 32 && (needed >> source & 1u);
    w.lanes[l].gets = defined ? w.lanes[source].gives : ~std::uint64_t{0};  // a NaN where CUDA says undefined
    released_.push_back(w.lanes[l].fiber);
  }
  w.arrived &= ~needed;
  ++w.meetings;
  release(released_);
}

// ---- what goes wrong ------------------------------------------------------------------------------------------------

void BlockRunner::note(std::string error) {
  if (error_.empty()) error_ = std::move(error);
}

// Every waiting thread is woken and leaves its kernel by an exception.
void BlockRunner::abort(std::string error) {
  note(std::move(error));
  aborting_ = true;
  next_ = count_;
  ready_.clear();
  alive_ = 0;
  const int self = fibers_.current();
  for (int fiber = 0; u(fiber) < fibers_.size(); ++fiber) {
    if (thread_of_[u(fiber)] == kNone) continue;
    ++alive_;
    if (fiber != self) ready_.push_back(fiber);
  }
  if (thread_of_[u(self)] != kNone) throw BlockAborted{};
}

void BlockRunner::abort_deadlock() {
  std::string error = "deadlock:";
  int named = 0;
  for (const int t : thread_of_)
    if (t != kNone && ++named <= 3)
      error += " thread " + std::to_string(t) + " waits at " + at(threads_[u(t)].where) + ";";
  error.pop_back();
  abort(std::move(error));
}

}  // namespace spillway::hostcuda
