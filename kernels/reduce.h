// reduce.h - what blocks do together, written once in portable CUDA: reductions over a warp and a block, and the
// partition of elements over blocks. Blocks have 1, 2, 4 .. 32 threads or a multiple of 32, so a warp is min(32,
// blockDim) lanes.
#pragma once
#include "kernels/launch.h"

namespace spillway::kernels {

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {  // a NaN stays
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

// Lanes of a warp of this block.
__device__ __forceinline__ int warp_lanes() {
  return blockDim.x < 32u ? static_cast<int>(blockDim.x) : 32;
}

// Every lane gets the result. The order of the tree is fixed: the same bits in every run.
template <class T, class Op>
__device__ __forceinline__ T warp_reduce(T value, Op op) {
  for (int offset = warp_lanes() / 2; offset > 0; offset /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// Every thread gets the result, and every thread of the block must call it: there are barriers inside.
template <class T, class Op>
__device__ __forceinline__ T block_reduce(T value, Op op, T identity) {
  value = warp_reduce(value, op);
  if (blockDim.x <= 32u) return value;
  SPILLWAY_SHARED(T, of_warp, 32);
  const unsigned lane = threadIdx.x % 32u, warp = threadIdx.x / 32u, warps = blockDim.x / 32u;
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? of_warp[lane] : identity, op);
  __syncthreads();  // the next call writes of_warp
  return value;
}

// The elements [begin, end) of n that this block owns: one contiguous piece, which its threads stride through. Not a
// grid-stride loop: at one thread a block that would touch every gridDim-th element.
struct Chunk {
  Index begin, end;
};
__device__ __forceinline__ Chunk block_chunk(Index n) {
  constexpr Index kAlign = 64;  // elements: pieces begin at a cache line
  const Index blocks = gridDim.x;
  const Index size = ((n + blocks - 1) / blocks + kAlign - 1) / kAlign * kAlign;
  const Index begin = Index{blockIdx.x} * size, end = begin + size;
  return {begin < n ? begin : n, end < n ? end : n};
}

// The launch of a kernel over block_chunk(n), n > 0. The partition depends on n alone.
inline LaunchConfig chunk_config(Index n, cudaStream_t stream) {
  constexpr Index kElementsPerBlock = kSerial ? 8192 : 1024, kMaxBlocks = 1 << 20;
  const Index blocks = (n + kElementsPerBlock - 1) / kElementsPerBlock;
  return {grid_of(blocks < kMaxBlocks ? blocks : kMaxBlocks), block_threads(256), 0, stream};
}

}  // namespace spillway::kernels
