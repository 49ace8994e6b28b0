// fill.h - constants, casts, and seeded random weights. The random values are exact integer arithmetic turned into
// floats by one multiplication, so that every device and compile draws the same weights, bit for bit.
#pragma once
#include "kernels/bfloat16.h"
#include "kernels/work.h"

namespace spillway::kernels {

// x (n) = value.
void fill(float* x, float value, Index n, cudaStream_t stream);
// x (n): element i is drawn from splitmix64(seed, i): the sum of four 16-bit uniforms, centred and scaled to standard
// deviation `std` (Irwin-Hall of order 4: close to normal, |x| < 3.47 std).
void fill_random(float* x, float std, std::uint64_t seed, Index n, cudaStream_t stream);

// The 16-bit formats that weights come in.
enum class Half { float16, bfloat16 };
// out (n) = in (n) widened, exactly.
void widen(float* out, const std::uint16_t* in, Half format, Index n, cudaStream_t stream);

void widen(float* out, const bfloat16* in, Index n, cudaStream_t stream);
// out (n) = in (n) rounded to bfloat16, to nearest, ties to even.
void narrow(bfloat16* out, const float* in, Index n, cudaStream_t stream);

}  // namespace spillway::kernels
