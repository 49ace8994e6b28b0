// cublas.cpp - cuBLAS on a CPU: the handle, the status strings, and cublasGemmEx as a task in its stream's queue.
// Arguments are checked as cuBLAS checks them, on the calling thread; the product itself (gemm.h) runs on the stream's.
// cuBLAS is column-major and gemm() row-major: a column-major matrix is the transpose of the row-major one with the
// same leading dimension, so C = op(A) op(B) is computed as C^T = op(B)^T op(A)^T.
#include <cublas_v2.h>

#include <algorithm>
#include <memory>

#include "runtime/hostcuda/gemm.h"
#include "runtime/hostcuda/stream.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

using spillway::hostcuda::MatrixView;

// op(X)^T, seen row-major, of the column-major X with leading dimension ld.
template <class T>
MatrixView<T> transposed(const void* data, cublasOperation_t op, int ld) {
  const auto* x = static_cast<const T*>(data);
  return op == CUBLAS_OP_N ? MatrixView<T>{x, ld, 1} : MatrixView<T>{x, 1, ld};
}

// The product as a task, for operands of T and a result of C.
template <class T, class C>
cudaError_t enqueue_product(cudaStream_t stream, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k,
                            float alpha, const void* a, int lda, const void* b, int ldb, float beta, void* c, int ldc) {
  const MatrixView<T> left = transposed<T>(b, b_op, ldb), right = transposed<T>(a, a_op, lda);
  return spillway::hostcuda::enqueue("cublasGemmEx", "gemm", stream, [=, out = static_cast<C*>(c)] {
    spillway::hostcuda::gemm(n, m, k, alpha, left, right, beta, out, ldc);
  });
}

struct StatusText {
  cublasStatus_t status;
  const char *name, *text;
};
constexpr StatusText kStatusTexts[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an invalid value was used as an argument"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH", "the device lacks a feature that is required"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "an access to device memory space failed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the function failed to launch on the device"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the parameters or their combination is not supported"},
    {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "the functionality needs a license"},
};
const StatusText* find(cublasStatus_t status) {
  const auto* end = std::end(kStatusTexts);
  const auto* it = std::find_if(std::begin(kStatusTexts), end, [=](const StatusText& t) { return t.status == status; });
  return it == end ? nullptr : it;
}

}  // namespace

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = std::make_unique<cublasContext>().release();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  std::unique_ptr<cublasContext>{handle};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  const StatusText* t = find(status);
  return t ? t->name : "CUBLAS_STATUS_UNKNOWN";
}

const char* cublasGetStatusString(cublasStatus_t status) {
  const StatusText* t = find(status);
  return t ? t->text : "an unknown status";
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  return mode == CUBLAS_TF32_TENSOR_OP_MATH ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t, cublasGemmAlgo_t) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int a_rows = a_op == CUBLAS_OP_N ? m : k, b_rows = b_op == CUBLAS_OP_N ? k : n;
  if (m < 0 || n < 0 || k < 0 || lda < std::max(1, a_rows) || ldb < std::max(1, b_rows) || ldc < std::max(1, m) ||
      !alpha || !beta)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (a_type != b_type || (c_type != a_type && c_type != CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!c || (k > 0 && (!a || !b))) return CUBLAS_STATUS_INVALID_VALUE;

  const auto product = a_type == CUDA_R_32F   ? enqueue_product<float, float>
                       : c_type == CUDA_R_32F ? enqueue_product<__nv_bfloat16, float>
                                              : enqueue_product<__nv_bfloat16, __nv_bfloat16>;
  const cudaError_t status = product(handle->stream, a_op, b_op, m, n, k, *static_cast<const float*>(alpha), a, lda, b,
                                     ldb, *static_cast<const float*>(beta), c, ldc);
  if (status == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  return status == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
}
