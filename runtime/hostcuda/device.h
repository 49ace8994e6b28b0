// device.h - CUDA C++'s device vocabulary for g++, so that a kernel file compiles as it stands. Two flavours:
// serial (SPILLWAY_SERIAL), one thread a block: threadIdx and blockDim are constants, barriers and shuffles vanish, and
// what is left of a kernel is a loop over its block's chunk, which vectorizes; and fiber (SPILLWAY_FIBER), any block
// size: every CUDA thread is a fiber, barriers and shuffles are real, and the order in which threads run can be chosen
// (control.h).
#pragma once
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

namespace spillway::hostcuda {

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
// Where the running thread is. __thread, not thread_local: no wrapper around each access.
extern __thread uint3 t_block_index;
extern __thread const dim3* t_grid;

// Appends a launch to the stream: its blocks are spread over the pool. `body` runs one thread of the kernel; `name`,
// static, is the kernel's.
cudaError_t launch_grid(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                        std::function<void()> body);
// The block's dynamic shared memory.
void* dynamic_shared();
inline constexpr std::size_t kMaxSharedBytes = 227 * 1024;  // of a block, as on sm_90

}  // namespace spillway::hostcuda

#define blockIdx (::spillway::hostcuda::t_block_index)
#define gridDim (*::spillway::hostcuda::t_grid)

#if defined(SPILLWAY_SERIAL)
// ---- one thread a block ---------------------------------------------------------------------------------------------

static constexpr dim3 blockDim{1, 1, 1};
static constexpr spillway::hostcuda::uint3 threadIdx{0, 0, 0};
static inline void __syncthreads() {}
static inline void __syncwarp(unsigned = ~0u) {}
template <class T>
static inline T __shfl_xor_sync(unsigned, T value, int, int = 32) {
  return value;
}
template <class T>
static inline T __shfl_down_sync(unsigned, T value, unsigned, int = 32) {
  return value;
}
template <class T>
static inline T __shfl_sync(unsigned, T value, int, int = 32) {
  return value;
}

#else
// ---- threads as fibers ----------------------------------------------------------------------------------------------

namespace spillway::hostcuda {
extern __thread uint3 t_thread_index;
extern __thread const dim3* t_block;

// Where in the kernel: named when threads wait for each other in vain.
using Where = std::source_location;
void block_barrier(Where where);
void warp_barrier(unsigned mask, Where where);
// Gives this lane's bits to the other lanes of `mask` and returns those of lane `source`.
std::uint64_t exchange_lanes(unsigned mask, std::uint64_t bits, int source, Where where);
int lane();
// One object a block for each place in the code that asks, poisoned with NaN at the block's first touch.
void* static_shared(const void* site, std::size_t bytes);

template <class T>
T shuffle(unsigned mask, T value, int source, int width, Where where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  if (source / width != lane() / width) source = lane();  // outside the segment: one's own value
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange_lanes(mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace spillway::hostcuda

#define threadIdx (::spillway::hostcuda::t_thread_index)
#define blockDim (*::spillway::hostcuda::t_block)
// A default argument, so that `where` is the line in the kernel.
#define SPILLWAY_WHERE spillway::hostcuda::Where where = spillway::hostcuda::Where::current()
static inline void __syncthreads(SPILLWAY_WHERE) {
  spillway::hostcuda::block_barrier(where);
}
static inline void __syncwarp(unsigned mask = ~0u, SPILLWAY_WHERE) {
  spillway::hostcuda::warp_barrier(mask, where);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, SPILLWAY_WHERE) {
  return spillway::hostcuda::shuffle(mask, value, spillway::hostcuda::lane() ^ lanes, width, where);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SPILLWAY_WHERE) {
  return spillway::hostcuda::shuffle(mask, value, spillway::hostcuda::lane() + static_cast<int>(delta), width, where);
}
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, SPILLWAY_WHERE) {
  const int base = spillway::hostcuda::lane() & ~(width - 1);
  return spillway::hostcuda::shuffle(mask, value, base + (source & (width - 1)), width, where);
}
#endif
