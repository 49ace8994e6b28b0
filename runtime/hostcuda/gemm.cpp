// gemm.cpp - a matrix product near the peak of the processor, after Goto and van de Geijn 2008, "Anatomy of
// High-Performance Matrix Multiplication" (doi:10.1145/1356052.1356053) and Van Zee and van de Geijn 2015, "BLIS"
// (doi:10.1145/2764454). Three ideas, from the inside out: a tile of C is held in registers while k passes by; both
// operands are first packed into panels that the tile reads in exactly that order; and the loops are blocked so that
// each panel is found in cache. Portable: GCC's vectors, with sizes for SSE, AVX and AVX-512.
#include "runtime/hostcuda/gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/hostcuda/pool.h"

namespace spillway::hostcuda {
namespace {

using Index = std::ptrdiff_t;

// ---- Sizes ----------------------------------------------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int kLanes = 16, kRegisters = 32;
#elif defined(__AVX__)
constexpr int kLanes = 8, kRegisters = 16;
#elif defined(__aarch64__)
constexpr int kLanes = 4, kRegisters = 32;
#else
constexpr int kLanes = 4, kRegisters = 16;
#endif

// The tile of C in registers: three quarters of them accumulate, the rest hold a row of B and an element of A.
constexpr int kVectors = 2;                                   // of a tile's row
constexpr int kTileRows = kRegisters * 3 / 4 / kVectors;      // 12 or 6
constexpr int kTileColumns = kVectors * kLanes;               // 32, 16 or 8
constexpr Index kDepth = 256;                                 // of a panel: 12 to 32 KiB, for the first-level cache
constexpr Index kDeepBlock = 4 * kDepth, kShortBlock = 1024;  // of the shared packed operand: 4 MiB at most
constexpr Index kSlice = 256, kJobs = 32;                     // see slice_lines

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));

Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
Vector load(const __nv_bfloat16* from) {
  using Halves = std::uint16_t __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));
  using Words = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words) << 16;
  Vector v;
  std::memcpy(&v, &words, sizeof v);
  return v;
}
void store(float* to, const Vector& v) {
  std::memcpy(to, &v, sizeof v);
}

Index ceil_div(Index a, Index b) {
  return (a + b - 1) / b;
}

// ---- Packing --------------------------------------------------------------------------------------------------------

// An operand seen from the product: lines of k elements. A line is a row of A or a column of B.
template <class T>
struct Lines {
  const T* data;
  Index line_stride, depth_stride;
  Index count;
};

// Elements of a and b in turn: a0 b0 a1 b1 ..., from their lower or their upper halves.
template <int first, int... i>
Vector interleave(const Vector& a, const Vector& b, std::integer_sequence<int, i...>) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * kLanes)...);
#else
  using Mask = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
  return __builtin_shuffle(a, b, Mask{(first + i / 2 + i % 2 * kLanes)...});
#endif
}

// Transposes a square in log2(kLanes) equal rounds: interleaving row i with row i + kLanes/2 moves the top bit of an
// element's row number to the bottom of its column number, so after as many rounds as there are bits the two have
// changed places.
void transpose(Vector (&rows)[kLanes]) {
  constexpr auto kAll = std::make_integer_sequence<int, kLanes>{};
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
    Vector next[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = interleave<0>(rows[i], rows[i + kLanes / 2], kAll);
      next[2 * i + 1] = interleave<kLanes / 2>(rows[i], rows[i + kLanes / 2], kAll);
    }
    std::copy(std::begin(next), std::end(next), std::begin(rows));
  }
}

// Writes lines [first, first + Width) and depths [begin, begin + depth) as a panel (depth, Width): the Width elements
// that one step of the tile needs lie side by side. Lines beyond the last are zeros; what they yield is never stored.
template <int Width, class T>
void pack_panel(float* panel, const Lines<T>& lines, Index first, Index begin, Index depth) {
  const Index count = std::min<Index>(Width, lines.count - first);
  const T* from = lines.data + first * lines.line_stride + begin * lines.depth_stride;
  Index p = 0;
  if (count == Width && lines.line_stride == 1) {
    for (; p < depth; ++p) std::copy_n(from + p * lines.depth_stride, Width, panel + p * Width);
  } else if (lines.depth_stride == 1) {
    for (; p + kLanes <= depth; p += kLanes)
#pragma GCC unroll 2
      for (int group = 0; group < Width; group += kLanes) {
        Vector square[kLanes];
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i)
          square[i] = group + i < count ? load(from + (group + i) * lines.line_stride + p) : Vector{};
        transpose(square);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i)
          std::memcpy(panel + (p + i) * Width + group, &square[i], std::min(kLanes, Width - group) * sizeof(float));
      }
  }
  for (; p < depth; ++p)
    for (Index i = 0; i < Width; ++i)
      panel[p * Width + i] = i < count ? static_cast<float>(from[i * lines.line_stride + p * lines.depth_stride]) : 0.f;
}

// ---- The tile -------------------------------------------------------------------------------------------------------

struct Scale {
  float alpha, beta;
};

void copy_tile(float* to, Index to_stride, const float* from, Index from_stride, Index rows, Index columns) {
  for (Index i = 0; i < rows; ++i) std::copy_n(from + i * from_stride, columns, to + i * to_stride);
}

// c (rows, columns) = alpha a b + beta c, for a panel a (depth, kTileRows) and a panel b (depth, kTileColumns). Each
// step of the loop over p is an outer product: kTileRows broadcasts and kVectors loads feed kTileRows * kVectors
// multiply-adds, all independent of each other, which hides their latency. The loops over a tile are unrolled: only
// what has no index at run time can be kept in registers.
void multiply_tile(Index depth, const float* a, const float* b, Scale scale, float* c, Index ldc, Index rows,
                   Index columns) {
  for (Index i = 0; i < rows; ++i) {
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + columns - 1, 1);
  }
  Vector sum[kTileRows][kVectors];
#pragma GCC unroll 16
  for (auto& row : sum)
    for (Vector& x : row) x = Vector{};
#pragma GCC unroll 2
  for (Index p = 0; p < depth; ++p, a += kTileRows, b += kTileColumns) {
    Vector row[kVectors];
    for (int j = 0; j < kVectors; ++j) row[j] = load(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < kVectors; ++j) sum[i][j] += a[i] * row[j];
  }

  // At the edge of C the tile is wider than what is left: it is finished in a copy.
  float edge[kTileRows * kTileColumns];
  const bool whole = rows == kTileRows && columns == kTileColumns;
  float* const to = whole ? c : edge;
  const Index stride = whole ? ldc : kTileColumns;
  if (scale.beta == 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < kVectors; ++j) store(to + i * stride + j * kLanes, scale.alpha * sum[i][j]);
  } else {
    if (!whole) {
      std::fill(std::begin(edge), std::end(edge), 0.f);
      copy_tile(edge, stride, c, ldc, rows, columns);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < kVectors; ++j) {
        float* const x = to + i * stride + j * kLanes;
        store(x, scale.alpha * sum[i][j] + scale.beta * load(x));
      }
  }
  if (!whole) copy_tile(c, ldc, edge, stride, rows, columns);
}

// ---- Blocking -------------------------------------------------------------------------------------------------------

// Memory for panels that a thread keeps from product to product: touching fresh pages costs more than packing. Aligned
// to cache lines, so that a load of B never straddles two.
class Scratch {
 public:
  float* floats(Index count) {
    const auto lines = static_cast<std::size_t>(ceil_div(count, kLineFloats));
    if (lines_.size() < lines) lines_.resize(lines);
    return lines_.front().floats;
  }

 private:
  static constexpr Index kLineFloats = 16;
  struct alignas(64) Line {
    float floats[kLineFloats];
  };
  std::vector<Line> lines_;
};

// How many lines of the longer side a job takes: whole panels, in kJobs jobs where that is not too many lines to keep
// packed in the second-level cache. From the shape alone, so that no result depends on the number of threads.
template <int Width>
Index slice_lines(Index count) {
  return std::clamp<Index>(ceil_div(ceil_div(count, kJobs), Width), 1, kSlice / Width) * Width;
}

// The shorter side of C is packed once, by all threads together, block by block; then each job packs a slice of the
// longer side for itself, into its own cache, and multiplies it with all of that block. Every element of C adds up its
// terms in the order of k, whoever computes it.
template <bool rows_are_short, class T>
void multiply(const Lines<T>& shorter, const Lines<T>& longer, Index k, Scale scale, float* c, Index ldc) {
  constexpr int kShort = rows_are_short ? kTileRows : kTileColumns, kLong = rows_are_short ? kTileColumns : kTileRows;
  constexpr Index kBlock = kShortBlock / kShort * kShort;
  static thread_local Scratch shared;
  const Index slice = slice_lines<kLong>(longer.count);

  for (Index s0 = 0; s0 < shorter.count; s0 += kBlock)
    for (Index k0 = 0; k0 < k; k0 += kDeepBlock) {
      const Index block = std::min(kBlock, shorter.count - s0), deep = std::min(kDeepBlock, k - k0);
      const Index padded = ceil_div(block, kShort) * kShort;
      float* const short_panels = shared.floats(padded * deep);  // kDepth after kDepth, in each panel after panel
      parallel_for(static_cast<std::size_t>(padded / kShort), 4, [&](std::size_t panel) {
        const Index s = static_cast<Index>(panel) * kShort;
        for (Index p = 0; p < deep; p += kDepth) {
          const Index depth = std::min(kDepth, deep - p);
          pack_panel<kShort>(short_panels + padded * p + s * depth, shorter, s0 + s, k0 + p, depth);
        }
      });
      parallel_for(static_cast<std::size_t>(ceil_div(longer.count, slice)), 1, [&](std::size_t job) {
        static thread_local Scratch own;
        float* const long_panels = own.floats(slice * kDepth);
        const Index begin = static_cast<Index>(job) * slice, end = std::min(longer.count, begin + slice);
        for (Index p = 0; p < deep; p += kDepth) {
          const Index depth = std::min(kDepth, deep - p);
          const Scale step{scale.alpha, k0 + p == 0 ? scale.beta : 1.f};
          for (Index l = begin; l < end; l += kLong)
            pack_panel<kLong>(long_panels + (l - begin) * depth, longer, l, k0 + p, depth);
          for (Index s = 0; s < block; s += kShort)
            for (Index l = begin; l < end; l += kLong) {
              const float* const short_panel = short_panels + padded * p + s * depth;
              const float* const long_panel = long_panels + (l - begin) * depth;
              const Index s_count = std::min<Index>(kShort, block - s), l_count = std::min<Index>(kLong, end - l);
              if constexpr (rows_are_short)
                multiply_tile(depth, short_panel, long_panel, step, c + (s0 + s) * ldc + l, ldc, s_count, l_count);
              else
                multiply_tile(depth, long_panel, short_panel, step, c + l * ldc + s0 + s, ldc, l_count, s_count);
            }
        }
      });
    }
}

template <class T>
void multiply_any(Index m, Index n, Index k, float alpha, MatrixView<T> a, MatrixView<T> b, float beta, float* c,
                  Index ldc) {
  if (k == 0) {
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? 0.f : beta * c[i * ldc + j];
    return;
  }
  const Lines<T> rows{a.data, a.row_stride, a.column_stride, m}, columns{b.data, b.column_stride, b.row_stride, n};
  if (m <= n)
    multiply<true>(rows, columns, k, {alpha, beta}, c, ldc);
  else
    multiply<false>(columns, rows, k, {alpha, beta}, c, ldc);
}

}  // namespace

void gemm(Index m, Index n, Index k, float alpha, MatrixView<float> a, MatrixView<float> b, float beta, float* c,
          Index ldc) {
  multiply_any(m, n, k, alpha, a, b, beta, c, ldc);
}

void gemm(Index m, Index n, Index k, float alpha, MatrixView<__nv_bfloat16> a, MatrixView<__nv_bfloat16> b, float beta,
          float* c, Index ldc) {
  multiply_any(m, n, k, alpha, a, b, beta, c, ldc);
}

// The sums are finished in float, a panel of C at a time, and rounded from there: logits in float beside logits in
// bfloat16 would be the larger of the two.
void gemm(Index m, Index n, Index k, float alpha, MatrixView<__nv_bfloat16> a, MatrixView<__nv_bfloat16> b, float beta,
          __nv_bfloat16* c, Index ldc) {
  constexpr Index kPanelFloats = 1 << 20;
  static thread_local Scratch scratch;
  const Index columns = std::min<Index>(n, std::max<Index>(kPanelFloats / m / kTileColumns, 1) * kTileColumns);
  float* const panel = scratch.floats(m * columns);
  for (Index first = 0; first < n; first += columns) {
    const Index width = std::min(columns, n - first);
    const MatrixView<__nv_bfloat16> part{b.data + first * b.column_stride, b.row_stride, b.column_stride};
    multiply_any(m, width, k, alpha, a, part, 0.f, panel, width);
    parallel_for(static_cast<std::size_t>(m), 16, [&](std::size_t row) {
      const float* const from = panel + static_cast<Index>(row) * width;
      __nv_bfloat16* const to = c + static_cast<Index>(row) * ldc + first;
      if (beta == 0)
        for (Index j = 0; j < width; ++j) to[j] = from[j];
      else
        for (Index j = 0; j < width; ++j) to[j] = from[j] + beta * static_cast<float>(to[j]);
    });
  }
}

}  // namespace spillway::hostcuda
