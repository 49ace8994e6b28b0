// swiglu.cu - elementwise. Nothing but the inputs is needed to go back: with sigma = 1 / (1 + exp(-gate)),
//   dup = ds * gate * sigma,   dgate = ds * up * sigma * (1 + gate * (1 - sigma)).
// For a gate far below zero exp(-gate) is infinite, sigma 0 and both gradients 0: no special case.
#include "kernels/swiglu.h"

#include "kernels/bfloat16.h"
#include "kernels/lanes.h"
#include "kernels/launch.h"
#include "kernels/reduce.h"

namespace spillway::kernels {
namespace {

// ---- kernels --------------------------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(256)
    swiglu_forward_kernel(T* __restrict__ s, const T* __restrict__ gate, const T* __restrict__ up, Index n) {
  const auto chunk = block_chunk(n);
  SPILLWAY_SIMD
  for (Index i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const float g = static_cast<float>(gate[i]);
    s[i] = static_cast<T>(g / (1.f + exponential(-g)) * static_cast<float>(up[i]));
  }
}

// dup and ds may be the same array, so neither is __restrict__.
template <class T>
__global__ void __launch_bounds__(256)
    swiglu_backward_kernel(T* __restrict__ dgate, T* dup, const T* ds, const T* __restrict__ gate,
                           const T* __restrict__ up, Index n) {
  const auto chunk = block_chunk(n);
  SPILLWAY_SIMD
  for (Index i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const float g = static_cast<float>(gate[i]), d = static_cast<float>(ds[i]);
    const float sigma = 1.f / (1.f + exponential(-g));
    dgate[i] = static_cast<T>(d * static_cast<float>(up[i]) * sigma * (1.f + g * (1.f - sigma)));
    dup[i] = static_cast<T>(d * g * sigma);
  }
}

}  // namespace

// ---- launchers ------------------------------------------------------------------------------------------------------

template <class T>
void swiglu_forward(T* s, const T* gate, const T* up, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(swiglu_forward_kernel<T>, chunk_config(n, stream), {"swiglu_forward", 5 * n, 3 * n * Index{sizeof(T)}}, s,
         gate, up, n);
}
template void swiglu_forward<float>(float*, const float*, const float*, Index, cudaStream_t);
template void swiglu_forward<bfloat16>(bfloat16*, const bfloat16*, const bfloat16*, Index, cudaStream_t);

template <class T>
void swiglu_backward(T* dgate, T* dup, const T* ds, const T* gate, const T* up, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(swiglu_backward_kernel<T>, chunk_config(n, stream), {"swiglu_backward", 11 * n, 5 * n * Index{sizeof(T)}},
         dgate, dup, ds, gate, up, n);
}
template void swiglu_backward<float>(float*, float*, const float*, const float*, const float*, Index, cudaStream_t);
template void swiglu_backward<bfloat16>(bfloat16*, bfloat16*, const bfloat16*, const bfloat16*, const bfloat16*, Index,
                                        cudaStream_t);

}  // namespace spillway::kernels
