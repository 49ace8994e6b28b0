// gemm.cpp - the host device's matrix product: Eigen, single-threaded, on tiles of the result spread over the pool.
#include "runtime/hostcuda/gemm.h"

#include <algorithm>
#include <eigen3/Eigen/Core>

#include "runtime/hostcuda/pool.h"

namespace spillway::hostcuda {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColumnMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic>;

template <class Matrix>
auto map(const MatrixView& v, std::ptrdiff_t rows, std::ptrdiff_t columns) {
  return Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>(
      v.data, rows, columns, Eigen::OuterStride<>(std::max(v.row_stride, v.column_stride)));
}

MatrixView part(const MatrixView& v, std::ptrdiff_t row, std::ptrdiff_t column) {
  return {v.data + row * v.row_stride + column * v.column_stride, v.row_stride, v.column_stride};
}

}  // namespace

void gemm(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, float alpha, MatrixView a, MatrixView b, float beta,
          float* c, std::ptrdiff_t ldc) {
  constexpr std::ptrdiff_t kTile = 256;
  const std::ptrdiff_t tile_rows = (m + kTile - 1) / kTile, tile_columns = (n + kTile - 1) / kTile;
  parallel_for(static_cast<std::size_t>(tile_rows * tile_columns), 1, [&](std::size_t tile) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(tile) % tile_rows * kTile;
    const std::ptrdiff_t column = static_cast<std::ptrdiff_t>(tile) / tile_rows * kTile;
    const std::ptrdiff_t rows = std::min(kTile, m - row), columns = std::min(kTile, n - column);
    Eigen::Map<RowMajor, Eigen::Unaligned, Eigen::OuterStride<>> out(c + row * ldc + column, rows, columns,
                                                                     Eigen::OuterStride<>(ldc));
    if (beta == 0)
      out.setZero();
    else if (beta != 1)
      out *= beta;
    if (k == 0) return;
    const MatrixView left = part(a, row, 0), right = part(b, 0, column);
    const auto product = [&](const auto& l, const auto& r) { out.noalias() += alpha * (l * r); };
    const auto with_left = [&](const auto& l) {
      if (b.column_stride == 1)
        product(l, map<RowMajor>(right, k, columns));
      else
        product(l, map<ColumnMajor>(right, k, columns));
    };
    if (a.column_stride == 1)
      with_left(map<RowMajor>(left, rows, k));
    else
      with_left(map<ColumnMajor>(left, rows, k));
  });
}

}  // namespace spillway::hostcuda
