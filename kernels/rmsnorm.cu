// rmsnorm.cu - a row a block: the mean square is one reduction, then every element is scaled. Going back, the scale
// depends on every element of the row, so each dx needs one more reduction, dot = sum(dy * weight * x):
//   dx = rstd * (dy * weight - x * rstd^2 * dot / d),   dweight = sum over rows of dy * x * rstd.
// A block walks over several rows, so that it can add up its share of dweight on the way.
#include "kernels/rmsnorm.h"

#include "kernels/bfloat16.h"
#include "kernels/launch.h"
#include "kernels/parts.h"
#include "kernels/reduce.h"

namespace spillway::kernels {
namespace {

// ---- kernels --------------------------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(256)
    rmsnorm_forward_kernel(T* __restrict__ y, float* __restrict__ rstd, const T* __restrict__ x,
                           const float* __restrict__ weight, Index d, float eps) {
  const Index row = blockIdx.x;
  const T* xr = x + row * d;
  T* yr = y + row * d;
  float squares = 0;
  SPILLWAY_SIMD_REDUCE(+ : squares)
  for (Index i = threadIdx.x; i < d; i += blockDim.x) {
    const float xi = static_cast<float>(xr[i]);
    squares += xi * xi;
  }
  squares = block_reduce(squares, Sum{}, 0.f);
  const float r = 1.f / sqrtf(squares / static_cast<float>(d) + eps);
  if (threadIdx.x == 0) rstd[row] = r;
  SPILLWAY_SIMD
  for (Index i = threadIdx.x; i < d; i += blockDim.x) yr[i] = static_cast<T>(static_cast<float>(xr[i]) * r * weight[i]);
}

// A block a part of the rows. Thread i owns columns i, i + blockDim ... of its row in sums (parts, d).
template <class T>
__global__ void __launch_bounds__(256)
    rmsnorm_backward_kernel(T* __restrict__ dx, float* __restrict__ sums, const T* __restrict__ dy,
                            const T* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ rstd,
                            Index rows, Index d, Index parts) {
  const Index part = blockIdx.x;
  float* sum = sums + part * d;
  SPILLWAY_SIMD
  for (Index i = threadIdx.x; i < d; i += blockDim.x) sum[i] = 0;

  const Rows mine = rows_of_part(rows, parts, part);
  for (Index row = mine.begin; row < mine.end; ++row) {
    const T *xr = x + row * d, *dyr = dy + row * d;
    T* dxr = dx + row * d;
    float dot = 0;
    SPILLWAY_SIMD_REDUCE(+ : dot)
    for (Index i = threadIdx.x; i < d; i += blockDim.x)
      dot += static_cast<float>(dyr[i]) * weight[i] * static_cast<float>(xr[i]);
    dot = block_reduce(dot, Sum{}, 0.f);

    const float r = rstd[row], shrink = dot * r * r / static_cast<float>(d);
    SPILLWAY_SIMD
    for (Index i = threadIdx.x; i < d; i += blockDim.x) {
      const float xi = static_cast<float>(xr[i]), g = static_cast<float>(dyr[i]);
      sum[i] += g * xi * r;
      dxr[i] = static_cast<T>(static_cast<float>(dxr[i]) + r * (g * weight[i] - xi * shrink));
    }
  }
}

}  // namespace

// ---- launchers ------------------------------------------------------------------------------------------------------

template <class T>
void rmsnorm_forward(T* y, float* rstd, const T* x, const float* weight, Index rows, Index d, float eps,
                     cudaStream_t stream) {
  if (rows == 0) return;
  const Index bytes = 2 * rows * d * Index{sizeof(T)} + (rows + d) * Index{sizeof(float)};
  launch(rmsnorm_forward_kernel<T>, {grid_of(rows), block_threads(256), 0, stream},
         {"rmsnorm_forward", 4 * rows * d, bytes}, y, rstd, x, weight, d, eps);
}
template void rmsnorm_forward<float>(float*, float*, const float*, const float*, Index, Index, float, cudaStream_t);
template void rmsnorm_forward<bfloat16>(bfloat16*, float*, const bfloat16*, const float*, Index, Index, float,
                                        cudaStream_t);

Index rmsnorm_backward_scratch(Index rows, Index d) {
  return row_parts(rows) * d;
}

template <class T>
void rmsnorm_backward(T* dx, float* dweight, float* scratch, const T* dy, const T* x, const float* weight,
                      const float* rstd, Index rows, Index d, cudaStream_t stream) {
  const Index parts = row_parts(rows);
  // Reads dx, dy and x, writes dx; the sums of the parts go out and come back.
  const Index bytes = 4 * rows * d * Index{sizeof(T)} + (rows + d + parts * d) * Index{sizeof(float)};
  if (rows > 0)
    launch(rmsnorm_backward_kernel<T>, {grid_of(parts), block_threads(256), 0, stream},
           {"rmsnorm_backward", 11 * rows * d, bytes}, dx, scratch, dy, x, weight, rstd, rows, d, parts);
  sum_parts(dweight, scratch, parts, d, "rmsnorm_backward_sum", stream);
}
template void rmsnorm_backward<float>(float*, float*, float*, const float*, const float*, const float*, const float*,
                                      Index, Index, cudaStream_t);
template void rmsnorm_backward<bfloat16>(bfloat16*, float*, float*, const bfloat16*, const bfloat16*, const float*,
                                         const float*, Index, Index, cudaStream_t);

}  // namespace spillway::kernels
