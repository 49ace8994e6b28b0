// planted.cu - kernels with one fault each, of the kinds that real ones get, and two without. planted_test.cpp shows
// that the build with real threads in a block, or its sanitizer, finds every fault and nothing else.
#include "test/runtime/hostcuda/planted.h"

#include "kernels/launch.h"

namespace spillway::test {
namespace {

// A reversal through shared memory. Right only with the barrier between the write and the read.
template <bool with_barrier>
__global__ void reverse_kernel(float* x) {
  SPILLWAY_SHARED(float, tile, 1024);
  tile[threadIdx.x] = x[threadIdx.x];
  if (with_barrier) __syncthreads();
  x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
// Half of each warp shuffles once more than the other half, and then all of them together.
__global__ void uneven_shuffles_kernel(float* x) {
  float v = x[threadIdx.x];
  if (threadIdx.x % 32 < 16) v += __shfl_xor_sync(0x0000ffffu, v, 1);
  x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, v, 16);
}
// Every block takes the first block's elements.
__global__ void blocks_collide_kernel(float* x) {
  x[threadIdx.x] = static_cast<float>(blockIdx.x);
}
// No `i < n`.
__global__ void out_of_bounds_kernel(float* x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = 2.f;
}
__global__ void shared_out_of_bounds_kernel(float* x) {
  SPILLWAY_SHARED(float, tile, 31);
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[threadIdx.x];
}
__global__ void uninitialized_kernel(float* x) {
  SPILLWAY_SHARED(float, tile, 32);
  if (threadIdx.x < 16) tile[threadIdx.x] = 1.f;
  __syncthreads();
  x[threadIdx.x] = tile[threadIdx.x];
}
__global__ void divergent_kernel(float* x) {
  if (threadIdx.x < 16) {
    x[threadIdx.x] = 1.f;
    __syncthreads();
  } else {
    x[threadIdx.x] = 2.f;
    __syncthreads();
  }
}
__global__ void early_exit_kernel(float* x) {
  if (threadIdx.x >= 20) return;
  x[threadIdx.x] = 1.f;
  __syncthreads();
}
// All lanes shuffle, but not in the same place.
__global__ void divergent_shuffle_kernel(float* x) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 16)
    v = __shfl_xor_sync(0xffffffffu, v, 1);
  else
    v = __shfl_xor_sync(0xffffffffu, v, 2);
  x[threadIdx.x] = v;
}
// A lane that is not in the mask it gives.
__global__ void foreign_mask_kernel(float* x) {
  x[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, x[threadIdx.x], 1);
}
__global__ void deadlock_kernel(float* x) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 16)
    v += __shfl_xor_sync(0xffffffffu, v, 1);  // half of the warp waits for the other, which waits at the barrier
  else
    __syncthreads();
  x[threadIdx.x] = v;
}

}  // namespace

void launch_planted(Planted fault, float* x, unsigned threads, cudaStream_t stream) {
  const auto run = [&](void (*kernel)(float*), unsigned blocks = 1) {
    kernels::launch(kernel, {dim3(blocks), dim3(threads), 0, stream}, {"planted", 0, 0}, x);
  };
  switch (fault) {
    case Planted::none:
      return run(reverse_kernel<true>);
    case Planted::none_in_shuffles:
      return run(uneven_shuffles_kernel);
    case Planted::missing_barrier:
      return run(reverse_kernel<false>);
    case Planted::blocks_collide:
      return run(blocks_collide_kernel, 2);
    case Planted::out_of_bounds:
      return run(out_of_bounds_kernel);
    case Planted::shared_out_of_bounds:
      return run(shared_out_of_bounds_kernel);
    case Planted::uninitialized:
      return run(uninitialized_kernel);
    case Planted::divergent_barrier:
      return run(divergent_kernel);
    case Planted::early_exit:
      return run(early_exit_kernel);
    case Planted::divergent_shuffle:
      return run(divergent_shuffle_kernel);
    case Planted::foreign_mask:
      return run(foreign_mask_kernel);
    case Planted::deadlock:
      return run(deadlock_kernel);
  }
}

}  // namespace spillway::test
