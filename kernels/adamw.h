// adamw.h - decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101) with PyTorch's order of operations:
//   p *= 1 - lr * weight_decay;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// In double, as PyTorch's are: 1 - beta2 would lose five digits in float.
struct AdamW {
  double lr = 1e-5, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};
// parameter, m, v, gradient (n). step counts from 1; the bias corrections are computed in double on the host.
void adamw(float* parameter, float* m, float* v, const float* gradient, Index n, const AdamW& options,
           std::int64_t step, cudaStream_t stream);

}  // namespace spillway::kernels
