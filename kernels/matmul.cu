// matmul.cu - row-major products through column-major cuBLAS. The row-major C (m, n) is, byte for byte, the
// column-major C^T (n, m), and C^T = op(B)^T op(A)^T: so the operands are passed in swapped order, each with the
// transposition it already had, and the leading dimension of each is the length of its row as stored. Nothing is
// copied.
#include "kernels/matmul.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/bfloat16.h"

namespace spillway::kernels {
namespace {

std::string shape(Index m, Index n, Index k) {
  return "matmul (" + std::to_string(m) + ", " + std::to_string(k) + ") x (" + std::to_string(k) + ", " +
         std::to_string(n) + ")";
}

template <class T>
constexpr cudaDataType kCudaType = CUDA_R_32F;
template <>
constexpr cudaDataType kCudaType<bfloat16> = CUDA_R_16BF;

}  // namespace

template <class T, class C>
void matmul(cublasHandle_t handle, Transpose a_op, Transpose b_op, Index m, Index n, Index k, const T* a, const T* b,
            float beta, C* c, cudaStream_t stream) {
  constexpr Index kMax = std::numeric_limits<int>::max();
  if (m < 0 || n < 0 || k < 0 || m > kMax || n > kMax || k > kMax)
    throw std::invalid_argument(shape(m, n, k) + ": cuBLAS takes sizes from 0 to " + std::to_string(kMax));
  if (m == 0 || n == 0) return;

  const Index bytes = (m * k + k * n) * Index{sizeof(T)} + m * n * (beta == 0 ? 1 : 2) * Index{sizeof(C)};
  declare({"matmul", 2 * m * n * k, bytes}, stream);

  const float alpha = 1;
  const auto op = [](Transpose t) { return t == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // A product without terms has matrices of no elements, whose rows cuBLAS still wants to be at least 1 long.
  const auto row = [](Index length) { return static_cast<int>(length > 0 ? length : 1); };
  const cublasStatus_t status = cublasGemmEx(
      handle, op(b_op), op(a_op), static_cast<int>(n), static_cast<int>(m), static_cast<int>(k), &alpha, b,
      kCudaType<T>, row(b_op == Transpose::yes ? k : n), a, kCudaType<T>, row(a_op == Transpose::yes ? m : k), &beta, c,
      kCudaType<C>, row(n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (status != CUBLAS_STATUS_SUCCESS)
    throw CublasError(status, shape(m, n, k) + ": cublasGemmEx answered " + cublasGetStatusName(status) + ": " +
                                  cublasGetStatusString(status));
}

template void matmul<float, float>(cublasHandle_t, Transpose, Transpose, Index, Index, Index, const float*,
                                   const float*, float, float*, cudaStream_t);
template void matmul<bfloat16, float>(cublasHandle_t, Transpose, Transpose, Index, Index, Index, const bfloat16*,
                                      const bfloat16*, float, float*, cudaStream_t);
template void matmul<bfloat16, bfloat16>(cublasHandle_t, Transpose, Transpose, Index, Index, Index, const bfloat16*,
                                         const bfloat16*, float, bfloat16*, cudaStream_t);

}  // namespace spillway::kernels
