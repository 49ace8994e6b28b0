// adamw.cu - one pass over parameter, gradient and both moments: 28 bytes and a dozen flops an element, so it runs at
// the speed of memory. Whatever does not depend on the element is computed once, in double, on the host, and the rest
// keeps PyTorch's order of operations (torch.optim.AdamW, single tensor).
#include "kernels/adamw.h"

#include <cmath>

#include "kernels/launch.h"
#include "kernels/reduce.h"

namespace spillway::kernels {
namespace {

// ---- kernel ---------------------------------------------------------------------------------------------------------

struct Coefficients {
  float decay;  // 1 - lr * weight_decay
  float one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;         // lr / (1 - beta1^step)
  float root_correction2;  // sqrt(1 - beta2^step)
  float eps;
};

__global__ void __launch_bounds__(256)
    adamw_kernel(float* __restrict__ parameter, float* __restrict__ m, float* __restrict__ v,
                 const float* __restrict__ gradient, Index n, Coefficients c) {
  const auto chunk = block_chunk(n);
  SPILLWAY_SIMD
  for (Index i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const float g = gradient[i];
    const float mi = m[i] + (g - m[i]) * c.one_minus_beta1;
    const float vi = v[i] * c.beta2 + g * g * c.one_minus_beta2;
    m[i] = mi;
    v[i] = vi;
    parameter[i] = parameter[i] * c.decay - c.step_size * (mi / (sqrtf(vi) / c.root_correction2 + c.eps));
  }
}

}  // namespace

// ---- launcher -------------------------------------------------------------------------------------------------------

void adamw(float* parameter, float* m, float* v, const float* gradient, Index n, const AdamW& options,
           std::int64_t step, cudaStream_t stream) {
  if (n == 0) return;
  const double correction1 = 1 - std::pow(options.beta1, static_cast<double>(step));
  const double correction2 = 1 - std::pow(options.beta2, static_cast<double>(step));
  const Coefficients c{.decay = static_cast<float>(1 - options.lr * options.weight_decay),
                       .one_minus_beta1 = static_cast<float>(1 - options.beta1),
                       .beta2 = static_cast<float>(options.beta2),
                       .one_minus_beta2 = static_cast<float>(1 - options.beta2),
                       .step_size = static_cast<float>(options.lr / correction1),
                       .root_correction2 = static_cast<float>(std::sqrt(correction2)),
                       .eps = static_cast<float>(options.eps)};
  launch(adamw_kernel, chunk_config(n, stream), {"adamw", 14 * n, 7 * n * Index{sizeof(float)}}, parameter, m, v,
         gradient, n, c);
}

}  // namespace spillway::kernels
