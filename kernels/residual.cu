// residual.cu - out += in, elementwise: two reads and a write for one addition, so memory bandwidth is all that counts.
#include "kernels/residual.h"

#include "kernels/bfloat16.h"
#include "kernels/launch.h"
#include "kernels/reduce.h"

namespace spillway::kernels {
namespace {

// ---- kernel ---------------------------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(256) residual_add_kernel(T* __restrict__ out, const T* __restrict__ in, Index n) {
  const auto chunk = block_chunk(n);
  SPILLWAY_SIMD
  for (Index i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x)
    out[i] = static_cast<T>(static_cast<float>(out[i]) + static_cast<float>(in[i]));
}

}  // namespace

// ---- launcher -------------------------------------------------------------------------------------------------------

template <class T>
void residual_add(T* out, const T* in, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(residual_add_kernel<T>, chunk_config(n, stream), {"residual_add", n, 3 * n * Index{sizeof(T)}}, out, in, n);
}
template void residual_add<float>(float*, const float*, Index, cudaStream_t);
template void residual_add<bfloat16>(bfloat16*, const bfloat16*, Index, cudaStream_t);

}  // namespace spillway::kernels
