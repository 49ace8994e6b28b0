// cuda_bf16.h - bfloat16 on a CPU, under CUDA's own name: the upper half of a float, so that widening is exact and only
// narrowing rounds (to nearest, ties to even; a NaN becomes CUDA's 0x7fff). Both are integer arithmetic without a
// branch, so that loops over arrays of it vectorize. Arithmetic is done in float: convert, compute, convert back.
#pragma once

struct __nv_bfloat16 {  // NOLINT(bugprone-reserved-identifier): CUDA's name
  unsigned short bits;

  __nv_bfloat16() = default;
  __nv_bfloat16(float value) {
    unsigned u;
    __builtin_memcpy(&u, &value, sizeof u);
    const unsigned rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    bits = static_cast<unsigned short>((u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
  }
  operator float() const {
    const unsigned u = static_cast<unsigned>(bits) << 16;
    float value;
    __builtin_memcpy(&value, &u, sizeof value);
    return value;
  }
};
