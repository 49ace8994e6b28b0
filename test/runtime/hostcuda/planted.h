// planted.h - the faults that planted.cu has a kernel for. All run one block of `threads` on x (threads), except that
// blocks_collide runs two.
#pragma once
#include <cuda_runtime_api.h>

namespace spillway::test {

enum class Planted {
  none,
  none_in_shuffles,
  missing_barrier,
  blocks_collide,
  out_of_bounds,
  shared_out_of_bounds,
  uninitialized,
  divergent_barrier,
  early_exit,
  divergent_shuffle,
  foreign_mask,
  deadlock,
};
void launch_planted(Planted fault, float* x, unsigned threads, cudaStream_t stream);

}  // namespace spillway::test
