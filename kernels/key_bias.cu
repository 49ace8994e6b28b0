// key_bias.cu - see key_bias.h. cosine - 1 would lose every digit where the angle is small; for the angles up to a
// quarter turn it is taken from the sine: cos - 1 = -sin^2 / (1 + cos).
#include "kernels/key_bias.h"

#include "kernels/bfloat16.h"
#include "kernels/launch.h"

namespace spillway::kernels {
namespace {

// A block a token.
template <class T>
__global__ void __launch_bounds__(256)
    key_bias_terms_kernel(float* __restrict__ out, const T* __restrict__ dk, const float* __restrict__ cosine,
                          const float* __restrict__ sine, Index seq, Index heads, Index half) {
  const Index token = blockIdx.x, position = token % seq;
  const float *cos_row = cosine + position * half, *sin_row = sine + position * half;
  for (Index e = threadIdx.x; e < heads * half; e += blockDim.x) {
    const Index i = e % half, low = (token * heads + e / half) * 2 * half + i, high = low + half;
    const float a = static_cast<float>(dk[low]), b = static_cast<float>(dk[high]);
    const float c = cos_row[i], s = sin_row[i];
    const float c_minus_1 = c > 0 ? -s * s / (1 + c) : c - 1;
    out[low] = a * c_minus_1 + b * s;
    out[high] = b * c_minus_1 - a * s;
  }
}

}  // namespace

template <class T>
void key_bias_terms(float* out, const T* dk, const float* cosine, const float* sine, Index batch, Index seq,
                    Index heads, Index head_dim, cudaStream_t stream) {
  const Index n = batch * seq * heads * head_dim;
  if (n == 0) return;
  const Index bytes = n * Index{sizeof(T)} + (n + seq * head_dim) * Index{sizeof(float)};
  launch(key_bias_terms_kernel<T>, {grid_of(batch * seq), block_threads(256), 0, stream},
         {"key_bias_terms", 3 * n, bytes}, out, dk, cosine, sine, seq, heads, head_dim / 2);
}
template void key_bias_terms<float>(float*, const float*, const float*, const float*, Index, Index, Index, Index,
                                    cudaStream_t);
template void key_bias_terms<bfloat16>(float*, const bfloat16*, const float*, const float*, Index, Index, Index, Index,
                                       cudaStream_t);

}  // namespace spillway::kernels
