// run_block.h - what launch.cpp asks of the flavour of the build: serial (launch.cpp itself) or fiber (fiber.cpp).
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "runtime/hostcuda/device.h"
#include "runtime/hostcuda/pool.h"

namespace spillway::hostcuda {

// Whether a block of this shape can run.
bool valid_block(dim3 block);
// Runs the threads of the grid's block `index`; `body` is one of them. Throws what a thread throws, and on a barrier
// that cannot be met.
void run_block(const dim3& grid, uint3 index, dim3 block, std::size_t shared_bytes, FunctionRef<void()> body);
// After the last block: the launching thread is ordered after every thread of the grid.
void finish_grid(const dim3* grid);

}  // namespace spillway::hostcuda
