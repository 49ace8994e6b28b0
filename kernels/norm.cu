// norm.cu - a sum over a whole tensor in two steps, as every sum here (parts.h): each block sums one part, whose size
// depends on n alone, then a single block adds the parts in order. In double, because squares of small gradients would
// drown in a float's sum of a hundred million others.
#include "kernels/norm.h"

#include "kernels/launch.h"
#include "kernels/reduce.h"

namespace spillway::kernels {
namespace {

constexpr Index kPartLength = 1 << 14, kMaxParts = 1024;

Index part_count(Index n) {
  const Index parts = (n + kPartLength - 1) / kPartLength;
  return parts < kMaxParts ? parts : kMaxParts;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

// A block a part.
__global__ void __launch_bounds__(256)
    squared_norm_parts_kernel(double* __restrict__ sums, const float* __restrict__ x, Index n) {
  const auto part = block_chunk(n);
  double sum = 0;
  SPILLWAY_SIMD_REDUCE(+ : sum)
  for (Index i = part.begin + threadIdx.x; i < part.end; i += blockDim.x) sum += static_cast<double>(x[i]) * x[i];
  sum = block_reduce(sum, Sum{}, 0.);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block.
__global__ void __launch_bounds__(256)
    squared_norm_sum_kernel(double* sum, const double* __restrict__ sums, Index parts) {
  double total = 0;
  for (Index i = threadIdx.x; i < parts; i += blockDim.x) total += sums[i];
  total = block_reduce(total, Sum{}, 0.);
  if (threadIdx.x == 0) *sum += total;
}

}  // namespace

// ---- launcher -------------------------------------------------------------------------------------------------------

Index squared_norm_scratch(Index n) {
  return part_count(n);
}

void squared_norm(double* sum, double* scratch, const float* x, Index n, cudaStream_t stream) {
  if (n == 0) return;
  const Index parts = part_count(n), kDouble = sizeof(double);
  launch(squared_norm_parts_kernel, {grid_of(parts), block_threads(256), 0, stream},
         {"squared_norm", 2 * n, n * Index{sizeof(float)} + parts * kDouble}, scratch, x, n);
  launch(squared_norm_sum_kernel, {grid_of(1), block_threads(256), 0, stream},
         {"squared_norm_sum", parts + 1, (parts + 2) * kDouble}, sum, scratch, parts);
}

}  // namespace spillway::kernels
