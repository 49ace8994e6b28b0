// launch.cpp - a kernel launch: a task of its stream that spreads the blocks over the pool. With one thread a block,
// running a block is calling the kernel; with many, fiber.cpp does it.
#include <utility>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/device.h"
#include "runtime/hostcuda/pool.h"
#include "runtime/hostcuda/run_block.h"
#include "runtime/hostcuda/stream_queue.h"

namespace spillway::hostcuda {

__thread uint3 t_block_index;
__thread const dim3* t_grid;

FiberOptions& fiber_options() {
  static FiberOptions options;
  return options;
}

#if defined(SPILLWAY_SERIAL)
void* dynamic_shared() {
  // Reused by every block that this thread runs: a kernel must not rely on what it finds.
  alignas(64) static thread_local std::byte memory[kMaxSharedBytes];
  return memory;
}

void run_block(const dim3& grid, uint3 index, dim3, std::size_t, FunctionRef<void()> body) {
  t_grid = &grid;
  t_block_index = index;
  body();
}
void finish_grid(const dim3*) {}
bool valid_block(dim3 block) {
  return block.x == 1 && block.y == 1 && block.z == 1;
}
#endif

namespace {

// CUDA's limits.
bool valid_grid(dim3 grid) {
  constexpr unsigned kMostX = 0x7fffffff, kMostYZ = 65535;
  return grid.x >= 1 && grid.x <= kMostX && grid.y >= 1 && grid.y <= kMostYZ && grid.z >= 1 && grid.z <= kMostYZ;
}

// Also when a thread has failed: the others have run.
struct EndOfGrid {
  const dim3* grid;
  ~EndOfGrid() { finish_grid(grid); }
};

}  // namespace

cudaError_t launch_grid(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                        std::function<void()> body) {
  const Call call("cudaLaunchKernel");
  if (call.error() != cudaSuccess) return call.error();
  if (!valid_grid(grid) || !valid_block(block)) return answer(cudaErrorInvalidConfiguration);
  if (shared_bytes > kMaxSharedBytes) return answer(cudaErrorInvalidValue);
  return append_kernel(stream, {name, grid, block, shared_bytes}, [=, body = std::move(body)]() mutable {
    const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
    const bool reversed = fiber_options().order == FiberOrder::reversed;
    // A few pieces a thread evens out blocks of unequal length. Which thread runs which block changes no result.
    const std::size_t piece = blocks / (static_cast<std::size_t>(pool_threads()) * 8) + 1;
    const EndOfGrid end{&grid};
    parallel_for(blocks, piece, [&](std::size_t i) {
      const std::size_t b = reversed ? blocks - 1 - i : i;
      const uint3 index = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                           static_cast<unsigned>(b / grid.x / grid.y)};
      run_block(grid, index, block, shared_bytes, body);
    });
  });
}

}  // namespace spillway::hostcuda
