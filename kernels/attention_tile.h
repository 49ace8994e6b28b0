// attention_tile.h - what attention's forward and backward kernels share: tiles of rows in shared memory, and one
// product, sum over p of a(p, i) * b(p, j), of which every thread computes small rectangles in registers. The larger
// operand b is always read along its rows, so where a block is one thread the loads are vectors.
#pragma once
#include "kernels/attention.h"
#include "kernels/lanes.h"
#include "kernels/launch.h"

namespace spillway::kernels {

// What a block's tiles may take: the 64 KiB that every GPU from sm_75 on has; on a CPU, the host device's limit.
inline constexpr std::size_t kMaxTileBytes = (kSerial ? 227 : 64) * 1024;

// Where a block of queries or keys finds its rows. q, o (B, T, heads, D); k, v (B, T, kv_heads, D); lse (B, heads, T).
template <int D>
struct HeadRows {
  Index first;   // element offset of row 0 of this head
  Index stride;  // elements from one row to the next
  __device__ __forceinline__ HeadRows(Index batch, Index head, Index heads, Index seq)
      : first((batch * seq * heads + head) * D), stride(heads * D) {}
  __device__ __forceinline__ Index operator[](Index row) const { return first + row * stride; }
};

// A thread alone takes a whole row at a time; threads side by side take neighbouring elements.
template <int D>
inline constexpr int kRun = kSerial ? D : 1;

// A passing tile's rows are one element longer on a GPU: threads that read a column of it then read different banks.
template <int D>
inline constexpr int kPitch = kSerial ? D : D + 1;

// tile (kRows, kPitch) = rows [begin, begin + kRows) of x; rows from seq on are zeros.
template <int D, int kRows, class T>
__device__ __forceinline__ void load_rows(float* tile, const T* x, const HeadRows<D>& rows, Index begin, Index seq) {
  for (int e = threadIdx.x; e < kRows * D / kRun<D>; e += blockDim.x) {
    const int r = e * kRun<D> / D, c = e * kRun<D> % D;
    float* to = tile + r * kPitch<D> + c;
    if (begin + r < seq) {
      const T* from = x + rows[begin + r] + c;
      SPILLWAY_SIMD
      for (int i = 0; i < kRun<D>; ++i) to[i] = static_cast<float>(from[i]);
    } else {
      SPILLWAY_SIMD
      for (int i = 0; i < kRun<D>; ++i) to[i] = 0;
    }
  }
}

// tile (D, kRows) = the same, transposed.
template <int D, int kRows, class T>
__device__ __forceinline__ void load_columns(float* tile, const T* x, const HeadRows<D>& rows, Index begin, Index seq) {
  for (int e = threadIdx.x; e < kRows * D; e += blockDim.x) {
    const int r = e / D, c = e % D;
    tile[c * kRows + r] = begin + r < seq ? static_cast<float>(x[rows[begin + r] + c]) : 0.f;
  }
}

// x (rows of the head) = rows of tile (kRows, D) that exist, each times scale_of(row).
template <int D, int kRows, class T, class ScaleOf>
__device__ __forceinline__ void store_rows(T* x, const float* tile, const HeadRows<D>& rows, Index begin, Index seq,
                                           ScaleOf scale_of) {
  for (int e = threadIdx.x; e < kRows * D / kRun<D>; e += blockDim.x) {
    const int r = e * kRun<D> / D, c = e * kRun<D> % D;
    if (begin + r >= seq) continue;
    T* to = x + rows[begin + r] + c;
    const float* from = tile + r * D + c;
    const float scale = scale_of(r);
    SPILLWAY_SIMD
    for (int i = 0; i < kRun<D>; ++i) to[i] = static_cast<T>(from[i] * scale);
  }
}

__device__ __forceinline__ void zero(float* tile, int count) {
  for (int e = threadIdx.x; e < count; e += blockDim.x) tile[e] = 0;
}

// The rectangle of a product that a thread holds in registers: kHigh rows, kWide registers of kLanes columns each.
// Serial: as many accumulators as leave registers for the operands. GPU: small, so that a tile feeds 128 threads.
#if defined(SPILLWAY_SERIAL)
inline constexpr int kHigh = kLanes == 16 ? 8 : 4, kWide = 2;
#else
inline constexpr int kHigh = 4, kWide = 4;
#endif

// Rows of scores and probabilities are skipped or read in steps of this many: what lies beyond the diagonal's step is
// neither computed nor read.
inline constexpr int kStep = kHigh > kLanes ? kHigh : kLanes;

// Which p of a product count for some rows, [begin, end).
struct Depth {
  int begin, end;
};

// The product of a (depth, kRows), element (p, i) at a[i * a_i + p * a_p], and b (depth, kColumns) with rows b_pitch
// apart. depth_of(i) answers for the rows [i, i + kHigh). needed(i, first, last) says whether any element is wanted of
// the rows [i, i + kHigh) in the columns [first, last]. use(i, j, lanes) gets row i, columns [j, j + kLanes).
template <int kRows, int kColumns, int a_i, int a_p, int b_pitch, class DepthOf, class Needed, class Use>
__device__ __forceinline__ void multiply(const float* a, const float* b, DepthOf depth_of, Needed needed, Use use) {
  constexpr int kRegisters = kWide * kLanes <= kColumns ? kWide : kColumns / kLanes;
  constexpr int kGroups = kColumns / (kRegisters * kLanes), kApart = kColumns / kRegisters;
  static_assert(kRows % kHigh == 0 && kColumns % (kRegisters * kLanes) == 0);
  for (int t = threadIdx.x; t < kRows / kHigh * kGroups; t += blockDim.x) {
    // A thread's registers lie kApart columns apart, so that neighbouring threads read neighbouring columns.
    const int i0 = t / kGroups * kHigh, j0 = t % kGroups * kLanes;
    if (!needed(i0, j0, j0 + (kRegisters - 1) * kApart + kLanes - 1)) continue;
    Lanes sum[kHigh][kRegisters] = {};
    const Depth depth = depth_of(i0);
    for (int p = depth.begin; p < depth.end; ++p) {
      Lanes row[kRegisters];
      SPILLWAY_UNROLL
      for (int j = 0; j < kRegisters; ++j) row[j] = load_lanes(b + p * b_pitch + j0 + j * kApart);
      SPILLWAY_UNROLL
      for (int i = 0; i < kHigh; ++i) {
        const float ai = a[(i0 + i) * a_i + p * a_p];
        SPILLWAY_UNROLL
        for (int j = 0; j < kRegisters; ++j) sum[i][j] += ai * row[j];
      }
    }
    SPILLWAY_UNROLL
    for (int i = 0; i < kHigh; ++i) {
      SPILLWAY_UNROLL
      for (int j = 0; j < kRegisters; ++j) use(i0 + i, j0 + j * kApart, sum[i][j]);
    }
  }
}

}  // namespace spillway::kernels
