// fill.cu - elementwise writes that must give the same bits everywhere. So the random numbers are a hash of the seed
// and the element's index (no state, hence no order), in integers up to the last step, which is a single
// multiplication; and the conversions from 16 bits are exact.
#include "kernels/fill.h"

#include <cmath>
#include <cstring>

#include "kernels/launch.h"
#include "kernels/reduce.h"

namespace spillway::kernels {
namespace {

// ---- kernels --------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(256) fill_kernel(float* __restrict__ x, float value, Index n) {
  const auto chunk = block_chunk(n);
  SPILLWAY_SIMD
  for (Index i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) x[i] = value;
}

// Number `index` of the sequence that SplitMix64 (Steele, Lea and Flood 2014) yields from `seed`.
__device__ __forceinline__ std::uint64_t splitmix64(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Four uniforms in [0, 65535] have the mean 2 * 65535; the sum is below 2^24, so its float is exact.
__global__ void __launch_bounds__(256)
    fill_random_kernel(float* __restrict__ x, float scale, std::uint64_t seed, Index n) {
  const auto chunk = block_chunk(n);
  SPILLWAY_SIMD
  for (Index i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const std::uint64_t z = splitmix64(seed, static_cast<std::uint64_t>(i));
    const std::uint64_t sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    x[i] = static_cast<float>(static_cast<std::int32_t>(sum) - 2 * 65535) * scale;
  }
}

__device__ __forceinline__ float from_bits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// A bfloat16 is the upper half of a float.
struct Bfloat16 {
  static __device__ __forceinline__ float widen(std::uint32_t h) { return from_bits(h << 16); }
};

// A float16 has 5 bits of exponent with bias 15 where a float has 8 with bias 127. Subnormals are multiples of 2^-24,
// which a float holds as normal numbers; infinities and NaNs keep the exponent of all ones and the NaN its payload.
struct Float16 {
  static __device__ __forceinline__ float widen(std::uint32_t h) {
    const std::uint32_t sign = (h & 0x8000) << 16, exponent = h & 0x7c00, rest = (h & 0x7fff) << 13;
    const float subnormal = static_cast<float>(static_cast<std::int32_t>(h & 0x3ff)) * 0x1p-24f;
    std::uint32_t subnormal_bits;
    memcpy(&subnormal_bits, &subnormal, sizeof subnormal_bits);
    const std::uint32_t normal_bits = rest + (exponent == 0x7c00 ? (255u - 31u) << 23 : (127u - 15u) << 23);
    return from_bits(sign | (exponent == 0 ? subnormal_bits : normal_bits));
  }
};

template <class Format>
__global__ void __launch_bounds__(256)
    widen_kernel(float* __restrict__ out, const std::uint16_t* __restrict__ in, Index n) {
  const auto chunk = block_chunk(n);
  SPILLWAY_SIMD
  for (Index i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) out[i] = Format::widen(in[i]);
}

__global__ void __launch_bounds__(256)
    narrow_kernel(bfloat16* __restrict__ out, const float* __restrict__ in, Index n) {
  const auto chunk = block_chunk(n);
  SPILLWAY_SIMD
  for (Index i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) out[i] = static_cast<bfloat16>(in[i]);
}

}  // namespace

// ---- launchers ------------------------------------------------------------------------------------------------------

void fill(float* x, float value, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(fill_kernel, chunk_config(n, stream), {"fill", 0, n * Index{sizeof(float)}}, x, value, n);
}

void fill_random(float* x, float std, std::uint64_t seed, Index n, cudaStream_t stream) {
  if (n == 0) return;
  // The variance of a uniform on 0 .. 65535 is (65536^2 - 1) / 12; four independent ones add up.
  const double deviation = std::sqrt(4 * (65536. * 65536. - 1) / 12);
  launch(fill_random_kernel, chunk_config(n, stream), {"fill_random", n, n * Index{sizeof(float)}}, x,
         static_cast<float>(std / deviation), seed, n);
}

void widen(float* out, const std::uint16_t* in, Half format, Index n, cudaStream_t stream) {
  if (n == 0) return;
  const Work work{"widen", 0, n * Index{sizeof(float) + sizeof(std::uint16_t)}};
  if (format == Half::bfloat16)
    launch(widen_kernel<Bfloat16>, chunk_config(n, stream), work, out, in, n);
  else
    launch(widen_kernel<Float16>, chunk_config(n, stream), work, out, in, n);
}

void widen(float* out, const bfloat16* in, Index n, cudaStream_t stream) {
  widen(out, reinterpret_cast<const std::uint16_t*>(in), Half::bfloat16, n, stream);
}

void narrow(bfloat16* out, const float* in, Index n, cudaStream_t stream) {
  if (n == 0) return;
  launch(narrow_kernel, chunk_config(n, stream), {"narrow", 0, n * Index{sizeof(float) + sizeof(bfloat16)}}, out, in,
         n);
}

}  // namespace spillway::kernels
