// stream.h - the inside of a stream: how work that is not a plain CUDA call (a kernel launch, a matrix product) gets
// into its queue.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>

namespace spillway::hostcuda {

// Appends a task to the stream's in-order queue; its thread runs it after everything before it. A null stream is the
// legacy default stream. Tasks are skipped (not run) in books-only mode, and once the device's context is lost. An
// exception that leaves a task loses it: the sticky error cudaErrorLaunchFailure, with the exception's text as
// last_failure(). Returns what a launch returns: cudaSuccess, a sticky error, or an armed fault of `function` (the
// public name that hostcuda::fail_call knows: "cudaLaunchKernel", "cublasGemmEx").
// `name`, static, is the work's for a profiler.
cudaError_t enqueue(const char* function, const char* name, cudaStream_t stream, std::function<void()> task);

}  // namespace spillway::hostcuda
