// rope.cu - every pair (i, i + half) of a head is turned by the angle of its position and frequency; the gradient is
// turned back by the same angle, because a rotation's transpose is its inverse. A block a token: its heads share the
// token's row of cosines and sines.
#include "kernels/rope.h"

#include <stdexcept>
#include <string>

#include "kernels/bfloat16.h"
#include "kernels/launch.h"

namespace spillway::kernels {
namespace {

// ---- kernel ---------------------------------------------------------------------------------------------------------

enum class Direction { forward, backward };

// A thread takes a run of neighbouring pairs of one head: one pair where it has neighbours to take the next, all pairs
// of the head where it is alone.
template <Direction direction, bool has_bias, class T>
__global__ void __launch_bounds__(256)
    rope_kernel(T* __restrict__ x, const float* __restrict__ bias, const float* __restrict__ cosine,
                const float* __restrict__ sine, Index seq, Index heads, Index half) {
  const Index token = blockIdx.x, position = token % seq;
  const float *cos_row = cosine + position * half, *sin_row = sine + position * half;
  const Index run = kSerial ? half : 1;
  for (Index e = Index{threadIdx.x} * run; e < heads * half; e += Index{blockDim.x} * run) {
    const Index head = e / half, first = e % half;
    T* low = x + (token * heads + head) * 2 * half;
    T* high = low + half;
    const float* bias_low = has_bias ? bias + head * 2 * half : nullptr;
    SPILLWAY_SIMD
    for (Index i = first; i < first + run; ++i) {
      float a = static_cast<float>(low[i]), b = static_cast<float>(high[i]);
      if constexpr (has_bias) {
        a += bias_low[i];
        b += bias_low[half + i];
      }
      const float c = cos_row[i], s = direction == Direction::forward ? sin_row[i] : -sin_row[i];
      low[i] = static_cast<T>(a * c - b * s);
      high[i] = static_cast<T>(b * c + a * s);
    }
  }
}

// ---- launchers ------------------------------------------------------------------------------------------------------

template <Direction direction, bool has_bias, class T>
void rotate(const char* name, T* x, const float* bias, const float* cosine, const float* sine, Index batch, Index seq,
            Index heads, Index head_dim, cudaStream_t stream) {
  if (head_dim % 2 != 0)
    throw std::invalid_argument(std::string(name) + ": head_dim " + std::to_string(head_dim) +
                                " must be even, because elements are rotated in pairs");
  const Index n = batch * seq * heads * head_dim;
  if (n == 0) return;
  const Index floats = seq * head_dim + (has_bias ? heads * head_dim : 0);
  const Work work{name, (has_bias ? 4 : 3) * n, 2 * n * Index{sizeof(T)} + floats * Index{sizeof(float)}};
  launch(rope_kernel<direction, has_bias, T>, {grid_of(batch * seq), block_threads(256), 0, stream}, work, x, bias,
         cosine, sine, seq, heads, head_dim / 2);
}

}  // namespace

template <class T>
void rope_forward(T* x, const float* bias, const float* cosine, const float* sine, Index batch, Index seq, Index heads,
                  Index head_dim, cudaStream_t stream) {
  if (bias)
    rotate<Direction::forward, true>("rope_forward", x, bias, cosine, sine, batch, seq, heads, head_dim, stream);
  else
    rotate<Direction::forward, false>("rope_forward", x, bias, cosine, sine, batch, seq, heads, head_dim, stream);
}
template void rope_forward<float>(float*, const float*, const float*, const float*, Index, Index, Index, Index,
                                  cudaStream_t);
template void rope_forward<bfloat16>(bfloat16*, const float*, const float*, const float*, Index, Index, Index, Index,
                                     cudaStream_t);

template <class T>
void rope_backward(T* dx, const float* cosine, const float* sine, Index batch, Index seq, Index heads, Index head_dim,
                   cudaStream_t stream) {
  rotate<Direction::backward, false>("rope_backward", dx, nullptr, cosine, sine, batch, seq, heads, head_dim, stream);
}
template void rope_backward<float>(float*, const float*, const float*, Index, Index, Index, Index, cudaStream_t);
template void rope_backward<bfloat16>(bfloat16*, const float*, const float*, Index, Index, Index, Index, cudaStream_t);

}  // namespace spillway::kernels
