// launch.h - the one header that a kernel file includes first. A kernel file is written once, in plain CUDA C++, and
// compiled three times from the same text:
//   nvcc                    for GPUs
//   g++ -DSPILLWAY_SERIAL   one thread a block: this is what trains on a CPU
//   g++ -DSPILLWAY_FIBER    many threads a block, each a fiber: this is what verifies the parallel logic
// What differs between the three for every kernel is in this file (lanes.h has what one thread computes with); `<<<>>>`
// stands here and nowhere else.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/launch_error.h"
#include "kernels/work.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/device.h"
#endif

// SPILLWAY_SHARED(float, tile, 32): an array of the block.
// SPILLWAY_DYNAMIC_SHARED(float, all): the LaunchConfig::shared_bytes that the launch asked for.
// SPILLWAY_SIMD, SPILLWAY_SIMD_REDUCE(+ : sum), SPILLWAY_UNROLL: what the loop below may be turned into.
#define SPILLWAY_PRAGMA(text) _Pragma(#text)
#if defined(__CUDACC__)
#define SPILLWAY_SHARED(type, name, count) __shared__ type name[count]
#define SPILLWAY_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(16) unsigned char spillway_dynamic_shared_[]; \
  type* name = reinterpret_cast<type*>(spillway_dynamic_shared_)
#define SPILLWAY_SIMD
#define SPILLWAY_SIMD_REDUCE(clause)
#define SPILLWAY_UNROLL SPILLWAY_PRAGMA(unroll)
#elif defined(SPILLWAY_SERIAL)
#define SPILLWAY_SHARED(type, name, count) alignas(64) static thread_local type name[count]
#define SPILLWAY_DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(::spillway::hostcuda::dynamic_shared())
#define SPILLWAY_SIMD SPILLWAY_PRAGMA(GCC ivdep)
#define SPILLWAY_SIMD_REDUCE(clause) SPILLWAY_PRAGMA(omp simd reduction(clause))
#define SPILLWAY_UNROLL SPILLWAY_PRAGMA(GCC unroll 16)
#else
// Heap memory, poisoned: sanitizers see its bounds, and a read of what nobody wrote gives NaN.
#define SPILLWAY_SHARED(type, name, count)    \
  static const char spillway_site_##name = 0; \
  type* const name =                          \
      static_cast<type*>(::spillway::hostcuda::static_shared(&spillway_site_##name, sizeof(type) * (count)))
#define SPILLWAY_DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(::spillway::hostcuda::dynamic_shared())
#define SPILLWAY_SIMD
#define SPILLWAY_SIMD_REDUCE(clause)
#define SPILLWAY_UNROLL
#endif

namespace spillway::kernels {

#if defined(SPILLWAY_SERIAL)
inline constexpr bool kSerial = true;  // where a tile that suits one vectorizing thread differs from a GPU's
#else
inline constexpr bool kSerial = false;
#endif

struct LaunchConfig {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  // of dynamic shared memory
  cudaStream_t stream = nullptr;
};

// Threads a block where `want` is right for a GPU. 1, 2, 4 .. 32 or a multiple of 32.
inline unsigned block_threads(unsigned want) {
#if defined(SPILLWAY_SERIAL)
  static_cast<void>(want);
  return 1;
#elif defined(SPILLWAY_FIBER)
  const int override = hostcuda::fiber_options().block_override;
  return override > 0 ? static_cast<unsigned>(override) : want;
#else
  return want;
#endif
}

// A one-dimensional grid of `blocks` (1 .. 2^31 - 1).
inline dim3 grid_of(Index blocks) {
  if (blocks < 1 || blocks > INT32_MAX)
    throw std::length_error("a grid of " + std::to_string(blocks) + " blocks: must be 1 to 2147483647");
  return dim3(static_cast<unsigned>(blocks));
}

// Declares the work, launches, throws LaunchError when the launch is refused.
template <class... P>
void launch(void (*kernel)(P...), const LaunchConfig& config, const Work& work, std::type_identity_t<P>... arguments) {
  declare(work, config.stream);
#if defined(__CUDACC__)
  constexpr std::size_t kSharedWithoutAsking = 48 * 1024;
  cudaError_t error = cudaSuccess;
  if (config.shared_bytes > kSharedWithoutAsking)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(config.shared_bytes));
  if (error == cudaSuccess) {
    kernel<<<config.grid, config.block, config.shared_bytes, config.stream>>>(arguments...);
    error = cudaGetLastError();
  }
#else
  const cudaError_t error = hostcuda::launch_grid(work.name, config.grid, config.block, config.shared_bytes,
                                                  config.stream, [=] { kernel(arguments...); });
#endif
  if (error == cudaSuccess) return;
  cudaGetLastError();  // told by the exception; left here it would be blamed on the next launch
  throw LaunchError(work.name, error);
}

}  // namespace spillway::kernels
