// execution.h - what every operator of the model runs on: one stream, the cuBLAS handle bound to it, and the allocator
// that serves it. All of a step's arithmetic goes to this one stream, in the host's order; so a workspace tensor may be
// freed as soon as its last reader is enqueued, and its memory given to the next writer at once.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/work.h"
#include "runtime/memory/allocator.h"
#include "runtime/tensor.h"

namespace spillway::model {

using kernels::Index;

struct Execution {
  memory::Allocator& allocator;
  cudaStream_t stream;
  cublasHandle_t cublas;

  // Scratch, or the gradient of an activation.
  template <class T = float>
  Tensor<T> workspace(Index elements, std::string_view owner) const {
    return {allocator, elements, memory::Category::workspace, stream, owner};
  }
};

}  // namespace spillway::model
