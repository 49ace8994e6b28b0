// parts.h - sums over rows in an order that depends on the shape alone. The rows are dealt to a number of parts; a
// block adds up its part's rows, and a second kernel adds the parts, first to last. So a sum has the same bits on every
// machine, whatever the number of processors, and needs no atomics.
#pragma once
#include "kernels/launch.h"
#include "kernels/reduce.h"
#include "kernels/work.h"

namespace spillway::kernels {

// Enough parts to fill a large GPU, few enough that the partial sums stay small beside what they sum.
inline Index row_parts(Index rows) {
  constexpr Index kRowsPerPart = 8, kMaxParts = 256;
  const Index parts = (rows + kRowsPerPart - 1) / kRowsPerPart;
  return parts < kMaxParts ? parts : kMaxParts;
}

struct Rows {
  Index begin, end;
};
// The rows of part `part`: as even as they go, in order.
__device__ __forceinline__ Rows rows_of_part(Index rows, Index parts, Index part) {
  return {rows * part / parts, rows * (part + 1) / parts};
}

// How many neighbouring columns a thread sums at a time: one on a GPU, where its neighbours read the next; a few vector
// registers full where the thread is alone.
inline constexpr int kColumnsAtATime = kSerial ? 64 : 1;

// For each column c in [first, last): add(c, the sum over p in [begin, end) of row_of(p)[c]), by all threads of the
// block.
template <class RowOf, class Add>
__device__ __forceinline__ void sum_rows(Index begin, Index end, Index first, Index last, RowOf row_of, Add add) {
  for (Index c = first + Index{threadIdx.x} * kColumnsAtATime; c < last; c += Index{blockDim.x} * kColumnsAtATime) {
    float sum[kColumnsAtATime] = {};
    if (last - c >= kColumnsAtATime) {  // a constant number of columns stays in registers
      for (Index p = begin; p < end; ++p) {
        const auto* row = row_of(p) + c;
        SPILLWAY_SIMD
        for (int j = 0; j < kColumnsAtATime; ++j) sum[j] += static_cast<float>(row[j]);
      }
      SPILLWAY_SIMD
      for (int j = 0; j < kColumnsAtATime; ++j) add(c + j, sum[j]);
    } else {
      const int width = static_cast<int>(last - c);
      for (Index p = begin; p < end; ++p)
        for (int j = 0; j < width; ++j) sum[j] += static_cast<float>(row_of(p)[c + j]);
      for (int j = 0; j < width; ++j) add(c + j, sum[j]);
    }
  }
}

// out (d) = sum over the parts of sums (parts, d), first to last. `name` is what the launch is called.
void sum_parts(float* out, const float* sums, Index parts, Index d, const char* name, cudaStream_t stream);

}  // namespace spillway::kernels
