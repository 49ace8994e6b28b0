// cross_entropy.h - softmax cross-entropy over a chunk of the logits. The gradient overwrites the logits, so a chunk is
// all that ever stands in memory. A target < 0 is ignored: loss 0, gradient 0.
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// losses (rows) = -log softmax(logits)[target]; logits (rows, vocab) = scale * (softmax - onehot).
template <class T>
void cross_entropy_forward_backward(float* losses, T* logits, const std::int32_t* targets, Index rows, Index vocab,
                                    float scale, cudaStream_t stream);
// Losses only; logits unchanged.
template <class T>
void cross_entropy_forward(float* losses, const T* logits, const std::int32_t* targets, Index rows, Index vocab,
                           cudaStream_t stream);
// mean (1) = sum of losses (n) / count, summed in double in a fixed order.
void mean_loss(float* mean, const float* losses, Index n, Index count, cudaStream_t stream);

}  // namespace spillway::kernels
