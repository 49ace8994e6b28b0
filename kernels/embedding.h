// embedding.h - token ids to vectors, and the gradient's way back. The backward pass adds without atomics: the host
// sorts positions by token id once a batch, and each row of the gradient is summed by one block in position order.
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// out (n, d) = weight (vocab, d) rows of tokens (n). Ids must be in range: the host checked them.
template <class T>
void embedding_forward(T* out, const std::int32_t* tokens, const float* weight, Index n, Index d, cudaStream_t stream);

// dweight (vocab, d) += rows of dout (n, d). order (n): positions sorted by (token id, position); segment s covers
// order[segment_begin[s] .. segment_begin[s + 1]) and all of its positions hold one token.
template <class T>
void embedding_backward(float* dweight, const T* dout, const std::int32_t* tokens, const std::int32_t* order,
                        const std::int32_t* segment_begin, Index segments, Index n, Index d, cudaStream_t stream);

}  // namespace spillway::kernels
