// rmsnorm.h - root-mean-square layer normalization (Zhang and Sennrich 2019, arXiv:1910.07467):
// y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps), one row a token.
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// y (rows, d), rstd (rows), x (rows, d), weight (d).
template <class T>
void rmsnorm_forward(T* y, float* rstd, const T* x, const float* weight, Index rows, Index d, float eps,
                     cudaStream_t stream);

// Floats of scratch that the backward pass needs. Depends on rows and d alone, not on the machine.
Index rmsnorm_backward_scratch(Index rows, Index d);
// dx (rows, d) += gradient (the residual's gradient is already there); dweight (d) = gradient. dy (rows, d).
template <class T>
void rmsnorm_backward(T* dx, float* dweight, float* scratch, const T* dy, const T* x, const float* weight,
                      const float* rstd, Index rows, Index d, cudaStream_t stream);

}  // namespace spillway::kernels
