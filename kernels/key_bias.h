// key_bias.h - the gradient of the key projection's bias, without the noise that floats bring into it. Moving every key
// by one vector adds one number to a query's scores, and no softmax changes: so the sum of dk over a row's positions is
// zero. With rotary positions the bias reaches position t as R(t) b, and its gradient is
//   db = sum of R(t)^T dk(t) = sum of (R(t)^T - I) dk(t).
// The two are equal, but the first adds up rounding errors as large as dk, which is ten thousand times the true value
// in the dimensions that turn slowly; and AdamW, which divides by the gradient's size, makes steps of them.
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// out = R(t)^T dk - dk; out, dk (batch, seq, heads, head_dim); cosine, sine (seq, head_dim / 2). The column sums of out
// (bias_backward) are the bias's gradient.
template <class T>
void key_bias_terms(float* out, const T* dk, const float* cosine, const float* sine, Index batch, Index seq,
                    Index heads, Index head_dim, cudaStream_t stream);

}  // namespace spillway::kernels
