// bias.cu - a row added to every row, and back. The gradient of a row that was added everywhere is the sum over the
// rows of what came back, taken in two steps (parts.h): each block sums a few rows, then one kernel sums the blocks.
#include "kernels/bias.h"

#include "kernels/bfloat16.h"
#include "kernels/launch.h"
#include "kernels/parts.h"

namespace spillway::kernels {
namespace {

// ---- kernels --------------------------------------------------------------------------------------------------------

// A block a row.
template <class T>
__global__ void __launch_bounds__(256) bias_forward_kernel(T* __restrict__ x, const float* __restrict__ bias, Index d) {
  T* row = x + Index{blockIdx.x} * d;
  SPILLWAY_SIMD
  for (Index i = threadIdx.x; i < d; i += blockDim.x) row[i] = static_cast<T>(static_cast<float>(row[i]) + bias[i]);
}

// A block a part. sums (parts, d).
template <class T>
__global__ void __launch_bounds__(256)
    bias_parts_kernel(float* __restrict__ sums, const T* __restrict__ dy, Index rows, Index d, Index parts) {
  const Index part = blockIdx.x;
  const Rows mine = rows_of_part(rows, parts, part);
  sum_rows(
      mine.begin, mine.end, 0, d, [=](Index row) { return dy + row * d; },
      [=](Index c, float sum) { sums[part * d + c] = sum; });
}

}  // namespace

// ---- launchers ------------------------------------------------------------------------------------------------------

template <class T>
void bias_forward(T* x, const float* bias, Index rows, Index d, cudaStream_t stream) {
  if (rows == 0 || d == 0) return;
  const Index n = rows * d, bytes = 2 * n * Index{sizeof(T)} + d * Index{sizeof(float)};
  launch(bias_forward_kernel<T>, {grid_of(rows), block_threads(256), 0, stream}, {"bias_forward", n, bytes}, x, bias,
         d);
}
template void bias_forward<float>(float*, const float*, Index, Index, cudaStream_t);
template void bias_forward<bfloat16>(bfloat16*, const float*, Index, Index, cudaStream_t);

Index bias_backward_scratch(Index rows, Index d) {
  return row_parts(rows) * d;
}

template <class T>
void bias_backward(float* dbias, float* scratch, const T* dy, Index rows, Index d, cudaStream_t stream) {
  if (d == 0) return;
  const Index parts = row_parts(rows), kFloat = sizeof(float);
  if (parts > 0)
    launch(bias_parts_kernel<T>, {grid_of(parts), block_threads(256), 0, stream},
           {"bias_backward", rows * d, rows * d * Index{sizeof(T)} + parts * d * kFloat}, scratch, dy, rows, d, parts);
  sum_parts(dbias, scratch, parts, d, "bias_backward_sum", stream);
}
template void bias_backward<float>(float*, float*, const float*, Index, Index, cudaStream_t);
template void bias_backward<bfloat16>(float*, float*, const bfloat16*, Index, Index, cudaStream_t);

}  // namespace spillway::kernels
