// flush_denormals.h - denormal floats count as zero on the threads that compute, as in fast GPU code: an optimizer
// state that decays towards zero would otherwise make every later step a hundred times slower.
#pragma once
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace spillway::hostcuda {

inline void flush_denormals() {
#if defined(__SSE__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

}  // namespace spillway::hostcuda
