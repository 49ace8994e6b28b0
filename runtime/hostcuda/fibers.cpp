// fibers.cpp - see fibers.h. Switching is symmetric: whoever arrives stores the continuation of the one that left.
#include "runtime/hostcuda/fibers.h"

#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

namespace spillway::hostcuda {
namespace {

namespace ctx = boost::context;

constexpr std::size_t kStackBytes = 128 * 1024;

#if defined(SPILLWAY_ASAN)
// With a guard page. A stack is given back clean: whatever is mapped at its address next is not a stack's red zone.
struct Stack {
  ctx::protected_fixedsize_stack memory{kStackBytes};
  ctx::stack_context allocate() { return memory.allocate(); }
  void deallocate(ctx::stack_context& stack) noexcept {
    __asan_unpoison_memory_region(static_cast<char*>(stack.sp) - stack.size, stack.size);
    memory.deallocate(stack);
  }
};
#else
struct Stack : ctx::fixedsize_stack {
  Stack() : ctx::fixedsize_stack(kStackBytes) {}
};
#endif

}  // namespace

int Fibers::create() {
  const int id = static_cast<int>(fibers_.size());
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber& made = *fibers_.back();
  Stack allocator;
  const ctx::stack_context stack = allocator.allocate();
  made.bottom = static_cast<char*>(stack.sp) - stack.size;
  made.bytes = stack.size;
#ifdef SPILLWAY_TSAN
  made.tsan = __tsan_create_fiber(0);
#endif
  // Stacks of one size would start in the same cache set: step their tops.
  const std::size_t shift = static_cast<std::size_t>(id) * 192 % 4096;
  const ctx::preallocated place(static_cast<char*>(stack.sp) - shift, stack.size - shift, stack);
  made.suspended = ctx::fiber(std::allocator_arg, place, allocator, [this, id](ctx::fiber&& from) {
    arrived(std::move(from), id);
    life_(id);
    return leave_for_good(id);
  });
  return id;
}

void Fibers::switch_to(int to) {
  const int self = current_;
  Fiber& next = fiber(to);
  left_ = self;
#ifdef SPILLWAY_ASAN
  __sanitizer_start_switch_fiber(&fiber(self).fake_stack, next.bottom, next.bytes);
#endif
#ifdef SPILLWAY_TSAN
  if (self == kMain) main_.tsan = __tsan_get_current_fiber();
  // Switching alone orders nothing between two CUDA threads. A fiber that quits is ordered before what comes after.
  __tsan_switch_to_fiber(next.tsan, quitting_ ? 0 : __tsan_switch_to_fiber_no_sync);
#endif
  arrived(std::move(next.suspended).resume(), self);
}

void Fibers::arrived(ctx::fiber&& from, int self) {
#ifdef SPILLWAY_ASAN
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fiber(self).fake_stack, &bottom, &bytes);
  if (left_ == kMain) {
    main_.bottom = bottom;
    main_.bytes = bytes;
  }
#endif
  fiber(left_).suspended = std::move(from);
  current_ = self;
}

ctx::fiber Fibers::leave_for_good(int self) {
  left_ = self;
#ifdef SPILLWAY_ASAN
  __sanitizer_start_switch_fiber(nullptr, main_.bottom, main_.bytes);
#endif
#ifdef SPILLWAY_TSAN
  __tsan_switch_to_fiber(main_.tsan, 0);
#endif
  return std::move(main_.suspended);
}

void Fibers::drop_all() {
  quitting_ = true;
  for (std::size_t id = 0; id < fibers_.size(); ++id) switch_to(static_cast<int>(id));
  quitting_ = false;
#ifdef SPILLWAY_TSAN
  for (const auto& f : fibers_) __tsan_destroy_fiber(f->tsan);
#endif
  fibers_.clear();
}

}  // namespace spillway::hostcuda
