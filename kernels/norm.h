// norm.h - the squared Euclidean norm of a tensor, for the gradient norm that `train` prints. Partial sums have a fixed
// order that depends on n alone.
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// Doubles of scratch for squared_norm.
Index squared_norm_scratch(Index n);
// sum (1) += sum of x (n) squared, in double.
void squared_norm(double* sum, double* scratch, const float* x, Index n, cudaStream_t stream);

}  // namespace spillway::kernels
