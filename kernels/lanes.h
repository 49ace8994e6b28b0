// lanes.h - what one thread computes with at once: a float on a GPU, where 32 threads make the vector; a whole vector
// register where a block is a single thread, because there the vector has to be spelled out to be sure of it. Inner
// loops written in Lanes are the same text for both. Also exp, which the host's library has only one float at a time.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/launch.h"
#include "kernels/work.h"

namespace spillway::kernels {

#if !defined(SPILLWAY_SERIAL)
inline constexpr int kLanes = 1;
using Lanes = float;
#else
#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
#endif

__device__ __forceinline__ Lanes load_lanes(const float* from) {
  Lanes v;
  memcpy(&v, from, sizeof v);
  return v;
}
__device__ __forceinline__ void store_lanes(float* to, const Lanes& v) {
  memcpy(to, &v, sizeof v);
}

// ---- exp ------------------------------------------------------------------------------------------------------------

#if defined(__CUDACC__)
__device__ __forceinline__ float exponential(float x) {
  return expf(x);
}
#else
template <class V>
struct BitsOf;
template <>
struct BitsOf<float> {
  using Type = std::uint32_t;
};
#if defined(SPILLWAY_SERIAL)
template <>
struct BitsOf<Lanes> {
  using Type = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));
};
#endif

// e^x within 2 units in the last place, as 2^n * e^r with n = round(x / ln 2) and |r| <= ln(2) / 2 (the polynomial is
// Cephes's expf). Straight-line code, so that loops around it vectorize. 0 below -87.3, infinity above 88.3; NaN stays.
template <class V>
__attribute__((always_inline)) inline V exponential(V x) {
  using Bits = typename BitsOf<V>::Type;
  constexpr float kLow = -87.3f, kHigh = 88.3f;
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: after adding it, the last bits of the float are the integer n
  const V low = V{} + kLow, high = V{} + kHigh;
  V c = x < low ? low : x;
  c = c > high ? high : c;
  const V shifted = c * 1.44269504088896341f + kRound;
  const V n = shifted - kRound;
  V r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.f;
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3f800000u;
  V scale;
  std::memcpy(&scale, &bits, sizeof scale);
  const V y = p * scale;
  const V zero = V{}, infinity = V{} + INFINITY;
  return x < low ? zero : (x > high ? infinity : y);
}
#endif

}  // namespace spillway::kernels
