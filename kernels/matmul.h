// matmul.h - matrix products of row-major matrices through cuBLAS (which thinks column-major: the operands are
// swapped). A linear layer is y = x W^T with W (out, in) as Hugging Face stores it; its three products are named below.
#pragma once
#include <cublas_v2.h>

#include <stdexcept>
#include <string>

#include "kernels/work.h"

namespace spillway::kernels {

// cuBLAS refused a product. One line: shape, status and its description.
class CublasError : public std::runtime_error {
 public:
  CublasError(cublasStatus_t status, const std::string& message) : std::runtime_error(message), status_(status) {}
  cublasStatus_t status() const { return status_; }

 private:
  cublasStatus_t status_;
};

enum class Transpose : std::uint8_t { no, yes };

// C (m, n) = op(A) (m, k) op(B) (k, n) + beta C. A is stored (m, k), or (k, m) when transposed; likewise B. Operands
// are float or bfloat16, terms are added up in float, and C is of the operands' type or float. On the handle's stream,
// which must be `stream`. Throws on a cuBLAS error.
template <class T, class C>
void matmul(cublasHandle_t handle, Transpose a_op, Transpose b_op, Index m, Index n, Index k, const T* a, const T* b,
            float beta, C* c, cudaStream_t stream);

// y (rows, out) = x (rows, in) weight (out, in)^T
template <class T>
void linear_forward(cublasHandle_t handle, T* y, const T* x, const T* weight, Index rows, Index in, Index out,
                    cudaStream_t stream) {
  matmul(handle, Transpose::no, Transpose::yes, rows, out, in, x, weight, 0.f, y, stream);
}
// dx (rows, in) = dy (rows, out) weight (out, in) + beta dx
template <class T>
void linear_backward_input(cublasHandle_t handle, T* dx, const T* dy, const T* weight, float beta, Index rows, Index in,
                           Index out, cudaStream_t stream) {
  matmul(handle, Transpose::no, Transpose::no, rows, in, out, dy, weight, beta, dx, stream);
}
// dweight (out, in) = dy (rows, out)^T x (rows, in) + beta dweight. A gradient of parameters is float.
template <class T>
void linear_backward_weight(cublasHandle_t handle, float* dweight, const T* dy, const T* x, float beta, Index rows,
                            Index in, Index out, cudaStream_t stream) {
  matmul(handle, Transpose::yes, Transpose::no, out, in, rows, dy, x, beta, dweight, stream);
}

}  // namespace spillway::kernels
