// bfloat16.h - the second type that activations come in: CUDA's own where there is a GPU, hostcuda's struct of the same
// name elsewhere. Kernels store it and compute in float.
#pragma once
#include <cuda_bf16.h>

namespace spillway::kernels {

using bfloat16 = __nv_bfloat16;
static_assert(sizeof(bfloat16) == 2);

}  // namespace spillway::kernels
