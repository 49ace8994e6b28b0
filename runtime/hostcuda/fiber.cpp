// fiber.cpp - the fiber build's side of device.h and run_block.h: what a kernel calls, passed on to the runner of the
// block that this thread of the machine is at.
#include <memory>

#include "runtime/hostcuda/device.h"
#include "runtime/hostcuda/fiber_block.h"
#include "runtime/hostcuda/run_block.h"
#include "runtime/hostcuda/sanitizers.h"

namespace spillway::hostcuda {
namespace {

thread_local std::unique_ptr<BlockRunner> t_owner;
__thread BlockRunner* t_runner;  // what t_owner holds: __thread, as kernels ask for it all the time

}  // namespace

void block_barrier(Where where) {
  const Ignore ignore;
  t_runner->block_barrier(where);
}
void warp_barrier(unsigned mask, Where where) {
  const Ignore ignore;
  t_runner->warp_barrier(mask, where);
}
std::uint64_t exchange_lanes(unsigned mask, std::uint64_t bits, int source, Where where) {
  const Ignore ignore;
  return t_runner->exchange_lanes(mask, bits, source, where);
}
int lane() {
  return t_runner->thread() % 32;
}
void* dynamic_shared() {
  return t_runner->shared().dynamic();
}
void* static_shared(const void* site, std::size_t bytes) {
  const Ignore ignore;
  return t_runner->shared().array(site, bytes);
}

bool valid_block(dim3 block) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return threads >= 1 && threads <= 1024 && (threads < 32 ? (threads & (threads - 1)) == 0 : threads % 32 == 0);
}

void run_block(const dim3& grid, uint3 index, dim3 block, std::size_t shared_bytes, FunctionRef<void()> body) {
  // Here, where ThreadSanitizer does not look: the fibers of the last block that this thread ran, which read these, are
  // ordered before nothing but the end of the grid.
  t_grid = &grid;
  t_block_index = index;
  if (!t_owner) t_owner = std::make_unique<BlockRunner>();
  t_runner = t_owner.get();
  t_runner->run(block, shared_bytes, body);
}

void finish_grid([[maybe_unused]] const dim3* grid) {
#ifdef SPILLWAY_TSAN
  __tsan_acquire(const_cast<dim3*>(grid));  // pairs with the end of every thread (BlockRunner::run_thread)
#endif
}

}  // namespace spillway::hostcuda
