// cuda_runtime.h - what CUDA's header of this name is for: the runtime API for C++ sources. Kernel files get the
// device's own vocabulary (threadIdx, __syncthreads) from kernels/launch.h.
#pragma once
#include <cuda_runtime_api.h>
