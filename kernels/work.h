// work.h - what a launch must do at least: every launcher declares it, so that each timing becomes a throughput and
// every cost model reads the same figures that the kernels state.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace spillway::kernels {

// Element counts and offsets. 64-bit: a tensor may hold more than 2^31 elements.
using Index = std::int64_t;

struct Work {
  const char* name;    // of the operator, static: "rmsnorm_forward"
  std::int64_t flops;  // multiply and add count one each
  std::int64_t bytes;  // device memory that must be read and written at least once
};

// Called on the host for every launch and every matrix product, in order, before it is issued. One listener; nullptr:
// none.
using LaunchListener = void (*)(void* context, const Work& work, cudaStream_t stream);
void set_launch_listener(LaunchListener listener, void* context);
// Launchers call this (launch() does it for them).
void declare(const Work& work, cudaStream_t stream);

}  // namespace spillway::kernels
