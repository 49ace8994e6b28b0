// gemm.h - the matrix product of the host device, spread over its pool: what stands under cublasGemmEx where there
// is no GPU. The way a product is cut into tiles, and the order in which each element's terms are added, depend on the
// shape alone: results are the same bits for any number of pool threads.
#pragma once
#include <cuda_bf16.h>

#include <cstddef>

namespace spillway::hostcuda {

// A matrix of floats or bfloat16 that is only read: element (i, j) is data[i * row_stride + j * column_stride]. One of
// the strides is 1, so that one struct stands for a matrix and for its transpose.
template <class T>
struct MatrixView {
  const T* data;
  std::ptrdiff_t row_stride, column_stride;
};

// c (m, n), row-major with rows ldc apart, = alpha a (m, k) b (k, n) + beta c. Terms are multiplied and added in float;
// a c of bfloat16 is rounded once, at the end. c is not read where beta is 0; NaN and infinity propagate as IEEE says.
// Called on a stream's thread.
void gemm(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, float alpha, MatrixView<float> a, MatrixView<float> b,
          float beta, float* c, std::ptrdiff_t ldc);
void gemm(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, float alpha, MatrixView<__nv_bfloat16> a,
          MatrixView<__nv_bfloat16> b, float beta, float* c, std::ptrdiff_t ldc);
void gemm(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, float alpha, MatrixView<__nv_bfloat16> a,
          MatrixView<__nv_bfloat16> b, float beta, __nv_bfloat16* c, std::ptrdiff_t ldc);

}  // namespace spillway::hostcuda
