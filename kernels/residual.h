// residual.h - the residual connection: what goes round a sublayer is added to what came through it. Its backward pass
// is a copy, so the gradient simply stays where it is (see rmsnorm_backward, which adds to it).
#pragma once
#include "kernels/work.h"

namespace spillway::kernels {

// out (n) += in (n).
template <class T>
void residual_add(T* out, const T* in, Index n, cudaStream_t stream);

}  // namespace spillway::kernels
