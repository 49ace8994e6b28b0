// cross_entropy.cu - softmax and its loss over long rows (a vocabulary has 150,000 entries), one row a block:
// the maximum, then the sum of exp(z - max), then the gradient. The row is written where it was read, so the logits and
// their gradient never stand in memory together. exp is computed twice rather than stored between the passes, which a
// 16-bit row would round.
#include "kernels/cross_entropy.h"

#include "kernels/bfloat16.h"
#include "kernels/lanes.h"
#include "kernels/launch.h"
#include "kernels/reduce.h"

namespace spillway::kernels {
namespace {

// ---- kernels --------------------------------------------------------------------------------------------------------

// A float sum of 150,000 terms would round away the small ones; sums of runs of this many, added up, do not.
constexpr Index kRun = kSerial ? 2048 : 16;

template <class T>
__device__ __forceinline__ float row_max(const T* z, Index vocab) {
  float top = -INFINITY;
  SPILLWAY_SIMD_REDUCE(max : top)
  for (Index i = threadIdx.x; i < vocab; i += blockDim.x) {
    const float zi = static_cast<float>(z[i]);
    top = top > zi ? top : zi;
  }
  return block_reduce(top, Max{}, -INFINITY);
}

// The sum of exp(z - top).
template <class T>
__device__ __forceinline__ float row_sum(const T* z, float top, Index vocab) {
  float sum = 0;
  for (Index begin = 0; begin < vocab; begin += kRun * blockDim.x) {
    const Index end = begin + kRun * blockDim.x < vocab ? begin + kRun * blockDim.x : vocab;
    float run = 0;
    SPILLWAY_SIMD_REDUCE(+ : run)
    for (Index i = begin + threadIdx.x; i < end; i += blockDim.x) run += exponential(static_cast<float>(z[i]) - top);
    sum += run;
  }
  return block_reduce(sum, Sum{}, 0.f);
}

template <class T>
__global__ void __launch_bounds__(512)
    cross_entropy_forward_backward_kernel(float* __restrict__ losses, T* __restrict__ logits,
                                          const std::int32_t* __restrict__ targets, Index vocab, float scale) {
  const Index row = blockIdx.x;
  T* z = logits + row * vocab;
  const Index target = targets[row];
  if (target < 0) {  // the same for the whole block: no thread misses a barrier
    SPILLWAY_SIMD
    for (Index i = threadIdx.x; i < vocab; i += blockDim.x) z[i] = static_cast<T>(0.f);
    if (threadIdx.x == 0) losses[row] = 0;
    return;
  }
  const float at_target = static_cast<float>(z[target]);
  const float top = row_max(z, vocab), sum = row_sum(z, top, vocab);
  __syncthreads();  // every thread has read z[target] before the one that owns it writes there
  if (threadIdx.x == 0) losses[row] = logf(sum) + top - at_target;

  const float share = scale / sum;
  SPILLWAY_SIMD
  for (Index i = threadIdx.x; i < vocab; i += blockDim.x)
    z[i] = static_cast<T>(exponential(static_cast<float>(z[i]) - top) * share);
  // The one-hot, by the thread that owns the column.
  if (Index{threadIdx.x} == target % Index{blockDim.x})
    z[target] = static_cast<T>(exponential(at_target - top) * share - scale);
}

template <class T>
__global__ void __launch_bounds__(512)
    cross_entropy_forward_kernel(float* __restrict__ losses, const T* __restrict__ logits,
                                 const std::int32_t* __restrict__ targets, Index vocab) {
  const Index row = blockIdx.x;
  const T* z = logits + row * vocab;
  const Index target = targets[row];
  if (target < 0) {
    if (threadIdx.x == 0) losses[row] = 0;
    return;
  }
  const float top = row_max(z, vocab);
  const float sum = row_sum(z, top, vocab);
  if (threadIdx.x == 0) losses[row] = logf(sum) + top - static_cast<float>(z[target]);
}

// One block.
__global__ void __launch_bounds__(256)
    mean_loss_kernel(float* mean, const float* __restrict__ losses, Index n, double count) {
  double sum = 0;
  for (Index i = threadIdx.x; i < n; i += blockDim.x) sum += static_cast<double>(losses[i]);
  sum = block_reduce(sum, Sum{}, 0.);
  if (threadIdx.x == 0) *mean = static_cast<float>(sum / count);
}

}  // namespace

// ---- launchers ------------------------------------------------------------------------------------------------------

template <class T>
void cross_entropy_forward_backward(float* losses, T* logits, const std::int32_t* targets, Index rows, Index vocab,
                                    float scale, cudaStream_t stream) {
  if (rows == 0) return;
  const Index n = rows * vocab;
  launch(cross_entropy_forward_backward_kernel<T>, {grid_of(rows), block_threads(512), 0, stream},
         {"cross_entropy_forward_backward", 6 * n, 2 * n * Index{sizeof(T)} + 2 * rows * Index{sizeof(float)}}, losses,
         logits, targets, vocab, scale);
}
template void cross_entropy_forward_backward<float>(float*, float*, const std::int32_t*, Index, Index, float,
                                                    cudaStream_t);
template void cross_entropy_forward_backward<bfloat16>(float*, bfloat16*, const std::int32_t*, Index, Index, float,
                                                       cudaStream_t);

template <class T>
void cross_entropy_forward(float* losses, const T* logits, const std::int32_t* targets, Index rows, Index vocab,
                           cudaStream_t stream) {
  if (rows == 0) return;
  const Index n = rows * vocab;
  launch(cross_entropy_forward_kernel<T>, {grid_of(rows), block_threads(512), 0, stream},
         {"cross_entropy_forward", 4 * n, n * Index{sizeof(T)} + 2 * rows * Index{sizeof(float)}}, losses, logits,
         targets, vocab);
}
template void cross_entropy_forward<float>(float*, const float*, const std::int32_t*, Index, Index, cudaStream_t);
template void cross_entropy_forward<bfloat16>(float*, const bfloat16*, const std::int32_t*, Index, Index, cudaStream_t);

void mean_loss(float* mean, const float* losses, Index n, Index count, cudaStream_t stream) {
  launch(mean_loss_kernel, {grid_of(1), block_threads(256), 0, stream},
         {"mean_loss", n + 1, (n + 1) * Index{sizeof(float)}}, mean, losses, n, static_cast<double>(count));
}

}  // namespace spillway::kernels
