// attention.h - causal grouped-query attention without a T x T matrix: tiles of keys and values pass by, the softmax is
// kept running (online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867; FlashAttention: Dao et al. 2022,
// arXiv:2205.14135). The backward pass recomputes the probabilities from the log-sum-exp.
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

struct AttentionShape {
  Index batch, seq, heads, kv_heads, head_dim;  // heads a multiple of kv_heads
};
// Whether the kernels are built for this head dimension (16, 32, 64, 128).
bool attention_supports(Index head_dim);
// Throws std::invalid_argument, in one line, unless the kernels can compute this shape.
void check_attention(const AttentionShape& shape);

// o (B, T, heads, D), lse (B, heads, T); q (B, T, heads, D), k, v (B, T, kv_heads, D). Scores are scaled by 1/sqrt(D).
template <class T>
void attention_forward(T* o, float* lse, const T* q, const T* k, const T* v, const AttentionShape& shape,
                       cudaStream_t stream);

// Floats of scratch for attention_backward: (B, heads, T), the row sums of dout * o.
Index attention_backward_scratch(const AttentionShape& shape);
// dq, dk, dv = gradients, shaped like q, k, v; dout like o.
template <class T>
void attention_backward(T* dq, T* dk, T* dv, float* scratch, const T* dout, const T* q, const T* k, const T* v,
                        const T* o, const float* lse, const AttentionShape& shape, cudaStream_t stream);

// What attention_forward declares: flops of the causal half (2 products of 2 * D a pair).
Work attention_forward_work(const AttentionShape& shape, Index element_bytes);

}  // namespace spillway::kernels
