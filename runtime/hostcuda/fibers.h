// fibers.h - stacks that one thread of the machine switches between by hand (Boost.Context), telling the sanitizers at
// every switch. Knows nothing of CUDA: which fiber stands for which CUDA thread is fiber_block.h's business.
#pragma once
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/hostcuda/sanitizers.h"

namespace spillway::hostcuda {

class Fibers {
 public:
  static constexpr int kMain = -1;  // the thread's own stack

  // `life` is what a fiber runs, once. It switches to others as often as it likes and returns when quitting().
  explicit Fibers(std::function<void(int id)> life) : life_(std::move(life)) {}
  ~Fibers() { drop_all(); }
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // A new fiber, which begins to live when it is first switched to.
  int create();
  // Leaves the current fiber, which goes on from here when somebody switches back.
  void switch_to(int to);
  int current() const { return current_; }
  std::size_t size() const { return fibers_.size(); }

  bool quitting() const { return quitting_; }
  // Called on the main stack: every fiber quits, and its stack is freed.
  void drop_all();

 private:
  struct Fiber {
    boost::context::fiber suspended;
    const void* bottom = nullptr;
    std::size_t bytes = 0;
#ifdef SPILLWAY_ASAN
    void* fake_stack = nullptr;
#endif
#ifdef SPILLWAY_TSAN
    void* tsan = nullptr;
#endif
  };
  Fiber& fiber(int id) { return id == kMain ? main_ : *fibers_[static_cast<std::size_t>(id)]; }
  void arrived(boost::context::fiber&& from, int self);
  boost::context::fiber leave_for_good(int self);

  std::function<void(int)> life_;
  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  int current_ = kMain, left_ = kMain;  // left_: who switched last
  bool quitting_ = false;
};

}  // namespace spillway::hostcuda
