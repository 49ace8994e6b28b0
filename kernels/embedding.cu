// embedding.cu - a row of the table for each token, and back. Many positions may hold one token, and all of them add to
// one row of the gradient. Atomics would add in whatever order the threads come; here the host has sorted the positions
// by token, so a block owns a token's row, adds its positions up in order, and then adds the sum to the row.
#include "kernels/embedding.h"

#include "kernels/bfloat16.h"
#include "kernels/launch.h"
#include "kernels/parts.h"

namespace spillway::kernels {
namespace {

// ---- kernels --------------------------------------------------------------------------------------------------------

// A block a position.
template <class T>
__global__ void __launch_bounds__(256)
    embedding_forward_kernel(T* __restrict__ out, const std::int32_t* __restrict__ tokens,
                             const float* __restrict__ weight, Index d) {
  const Index position = blockIdx.x;
  const float* from = weight + Index{tokens[position]} * d;
  T* to = out + position * d;
  SPILLWAY_SIMD
  for (Index i = threadIdx.x; i < d; i += blockDim.x) to[i] = static_cast<T>(from[i]);
}

// A block a segment: the positions of one token.
template <class T>
__global__ void __launch_bounds__(256)
    embedding_backward_kernel(float* __restrict__ dweight, const T* __restrict__ dout,
                              const std::int32_t* __restrict__ tokens, const std::int32_t* __restrict__ order,
                              const std::int32_t* __restrict__ segment_begin, Index d) {
  const std::int32_t begin = segment_begin[blockIdx.x], end = segment_begin[blockIdx.x + 1];
  float* row = dweight + Index{tokens[order[begin]]} * d;
  sum_rows(
      begin, end, 0, d, [=](Index p) { return dout + Index{order[p]} * d; },
      [=](Index c, float sum) { row[c] += sum; });
}

}  // namespace

// ---- launchers ------------------------------------------------------------------------------------------------------

template <class T>
void embedding_forward(T* out, const std::int32_t* tokens, const float* weight, Index n, Index d, cudaStream_t stream) {
  if (n == 0) return;
  const Index bytes = n * d * Index{sizeof(T) + sizeof(float)} + n * Index{sizeof(std::int32_t)};
  launch(embedding_forward_kernel<T>, {grid_of(n), block_threads(256), 0, stream}, {"embedding_forward", 0, bytes}, out,
         tokens, weight, d);
}
template void embedding_forward<float>(float*, const std::int32_t*, const float*, Index, Index, cudaStream_t);
template void embedding_forward<bfloat16>(bfloat16*, const std::int32_t*, const float*, Index, Index, cudaStream_t);

template <class T>
void embedding_backward(float* dweight, const T* dout, const std::int32_t* tokens, const std::int32_t* order,
                        const std::int32_t* segment_begin, Index segments, Index n, Index d, cudaStream_t stream) {
  if (segments == 0) return;
  // Every position's gradient is read once, every touched row of dweight read and written once.
  const Index bytes = n * d * Index{sizeof(T)} + 2 * segments * d * Index{sizeof(float)} +
                      (n + 2 * segments + 1) * Index{sizeof(std::int32_t)};
  launch(embedding_backward_kernel<T>, {grid_of(segments), block_threads(256), 0, stream},
         {"embedding_backward", n * d, bytes}, dweight, dout, tokens, order, segment_begin, d);
}
template void embedding_backward<float>(float*, const float*, const std::int32_t*, const std::int32_t*,
                                        const std::int32_t*, Index, Index, Index, cudaStream_t);
template void embedding_backward<bfloat16>(float*, const bfloat16*, const std::int32_t*, const std::int32_t*,
                                           const std::int32_t*, Index, Index, Index, cudaStream_t);

}  // namespace spillway::kernels
