// bias.h - adding a row to every row, and its gradient: column sums in a fixed order.
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// x (rows, d) += bias (d).
template <class T>
void bias_forward(T* x, const float* bias, Index rows, Index d, cudaStream_t stream);

// Floats of scratch for bias_backward.
Index bias_backward_scratch(Index rows, Index d);
// dbias (d) = sum over rows of dy (rows, d).
template <class T>
void bias_backward(float* dbias, float* scratch, const T* dy, Index rows, Index d, cudaStream_t stream);

}  // namespace spillway::kernels
