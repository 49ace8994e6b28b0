// parts.cu - the second step of every sum over rows (see parts.h): the partial sums of all blocks, added in order. Each
// block takes a run of columns, so that a whole GPU works on it although the rows are few.
#include "kernels/parts.h"

namespace spillway::kernels {
namespace {

constexpr Index kColumnsPerBlock = kSerial ? 1024 : 64;

__global__ void __launch_bounds__(kColumnsPerBlock)
    sum_parts_kernel(float* __restrict__ out, const float* __restrict__ sums, Index parts, Index d) {
  const Index first = Index{blockIdx.x} * kColumnsPerBlock;
  const Index last = first + kColumnsPerBlock < d ? first + kColumnsPerBlock : d;
  sum_rows(
      0, parts, first, last, [=](Index part) { return sums + part * d; }, [=](Index c, float sum) { out[c] = sum; });
}

}  // namespace

void sum_parts(float* out, const float* sums, Index parts, Index d, const char* name, cudaStream_t stream) {
  if (d == 0) return;
  launch(sum_parts_kernel, {grid_of((d + kColumnsPerBlock - 1) / kColumnsPerBlock), block_threads(64), 0, stream},
         {name, parts * d, (parts + 1) * d * Index{sizeof(float)}}, out, sums, parts, d);
}

}  // namespace spillway::kernels
