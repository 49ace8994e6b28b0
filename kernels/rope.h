// rope.h - rotary position embedding (Su et al. 2021, arXiv:2104.09864) in Hugging Face's half-split layout: element i
// is rotated with element i + head_dim / 2. The projection's bias, where there is one, is added on the way.
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// x (batch, seq, heads, head_dim) in place: rotate(x + bias). bias (heads * head_dim) or null.
// cosine, sine (seq, head_dim / 2).
template <class T>
void rope_forward(T* x, const float* bias, const float* cosine, const float* sine, Index batch, Index seq, Index heads,
                  Index head_dim, cudaStream_t stream);
// dx (batch, seq, heads, head_dim) in place: rotated back; what the projection's backward pass and bias need.
template <class T>
void rope_backward(T* dx, const float* cosine, const float* sine, Index batch, Index seq, Index heads, Index head_dim,
                   cudaStream_t stream);

}  // namespace spillway::kernels
