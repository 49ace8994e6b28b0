// gemm_test.cpp - the host's matrix product against Eigen in double, at the sizes where its blocking has edges, and its
// promises: nothing outside the operands is touched, NaN propagates, threads do not change a bit.
#include "runtime/hostcuda/gemm.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/hostcuda/control.h"
#include "test/fixture.h"
#include "test/kernels/reference.h"

namespace spillway::hostcuda {
namespace {

using Index = std::ptrdiff_t;
using test::Matrix;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_floats(Index n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = uniform(generator);
  return v;
}

// A stored matrix (rows, columns) or its transpose, each row of the storage `gap` longer than it need be.
struct Operand {
  Index rows, columns, stride;
  bool transposed;
  std::vector<float> storage;

  Operand(Index r, Index c, bool t, Index gap, unsigned seed)
      : rows(r),
        columns(c),
        stride((t ? r : c) + gap),
        transposed(t),
        storage(random_floats((t ? c : r) * stride, seed)) {}
  MatrixView<float> view() const {
    return transposed ? MatrixView<float>{storage.data(), 1, stride} : MatrixView<float>{storage.data(), stride, 1};
  }
  float& at(Index i, Index j) {
    return storage[static_cast<std::size_t>(transposed ? j * stride + i : i * stride + j)];
  }
  Matrix matrix() {
    return Matrix::NullaryExpr(rows, columns, [this](Index i, Index j) { return static_cast<double>(at(i, j)); });
  }
};

// The product and the bound of its rounding: each of k products and sums is off by at most half an ulp.
void check_product(Index m, Index n, Index k, bool a_transposed, bool b_transposed, float alpha, float beta,
                   Index gap) {
  Operand a(m, k, a_transposed, gap, 1), b(k, n, b_transposed, gap, 2), c(m, n, false, gap, 3);
  const std::vector<float> before = c.storage;
  const Matrix expected = alpha * (a.matrix() * b.matrix()) + beta * c.matrix();
  const Matrix magnitude =
      std::abs(alpha) * (a.matrix().cwiseAbs() * b.matrix().cwiseAbs()) + std::abs(beta) * c.matrix().cwiseAbs();
  gemm(m, n, k, alpha, a.view(), b.view(), beta, c.storage.data(), c.stride);

  const double unit = std::numeric_limits<float>::epsilon() / 2;
  const Matrix error = (c.matrix() - expected).cwiseAbs() - static_cast<double>(k + 3) * unit * magnitude;
  const std::string shape = std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
  BOOST_TEST(error.maxCoeff() <= 0, shape << (a_transposed ? ", A^T" : "") << (b_transposed ? ", B^T" : ""));
  for (Index i = 0; i < m; ++i)
    for (Index j = n; j < c.stride; ++j) {
      const auto at = static_cast<std::size_t>(i * c.stride + j);
      if (c.storage[at] != before[at]) BOOST_FAIL(shape << ": wrote between the rows of C");
    }
}

void check_transpositions(Index m, Index n, Index k) {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      check_product(m, n, k, a, b, 1, 0, 0);
      check_product(m, n, k, a, b, -0.5f, 1, 3);
    }
}

BOOST_AUTO_TEST_SUITE(matrix_product)

BOOST_AUTO_TEST_CASE(small_and_odd_shapes_match_eigen_in_double) {
  for (const Index m : {1, 2, 5, 12, 13, 31})
    for (const Index n : {1, 3, 8, 16, 32, 33, 67})
      for (const Index k : {1, 4, 17, 64}) check_transpositions(m, n, k);
}

BOOST_AUTO_TEST_CASE(shapes_across_the_edges_of_every_block_match_eigen_in_double) {
  check_transpositions(37, 41, 257);    // more than a panel's depth
  check_transpositions(29, 7, 1061);    // more than a shared block's depth
  check_transpositions(1031, 1049, 7);  // more than a shared block's lines
  check_transpositions(3, 8209, 5);     // more lines than kJobs slices hold
  check_transpositions(8209, 3, 5);
}

BOOST_AUTO_TEST_CASE(beta_scales_what_was_there) {
  for (const float beta : {0.f, 1.f, -2.f, 0.25f}) check_product(23, 45, 300, false, true, 1, beta, 0);
}

BOOST_AUTO_TEST_CASE(without_terms_c_is_scaled_and_nothing_else) {
  const MatrixView<float> nothing{nullptr, 1, 1};
  std::vector<float> c = {1, 2, 3, 4};
  gemm(1, 2, 0, 1, nothing, nothing, 0.5f, c.data(), 2);
  BOOST_TEST(c == (std::vector<float>{0.5f, 1, 3, 4}), boost::test_tools::per_element());
  c = {kNaN, kInfinity, 3, 4};
  gemm(2, 1, 0, 1, nothing, nothing, 0, c.data(), 2);
  BOOST_TEST(c[0] == 0);
  BOOST_TEST(c[1] == kInfinity);
  BOOST_TEST(c[2] == 0);
}

BOOST_AUTO_TEST_CASE(c_is_not_read_where_beta_is_zero) {
  for (const auto& [m, n] : {std::pair<Index, Index>{13, 33}, {24, 64}}) {
    Operand a(m, 20, false, 0, 1), b(20, n, false, 0, 2), c(m, n, false, 0, 3);
    for (float& x : c.storage) x = kNaN;
    gemm(m, n, 20, 1, a.view(), b.view(), 0, c.storage.data(), n);
    BOOST_TEST(c.matrix().allFinite());
  }
}

BOOST_AUTO_TEST_CASE(nan_and_infinity_reach_exactly_the_elements_that_they_touch) {
  const Index m = 40, n = 70, k = 300;
  Operand a(m, k, false, 0, 1), b(k, n, true, 0, 2), c(m, n, false, 0, 3);
  a.at(7, 299) = kNaN;
  b.at(2, 65) = kInfinity;
  gemm(m, n, k, 1, a.view(), b.view(), 0, c.storage.data(), n);
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      const float x = c.at(i, j);
      const bool right = i == 7    ? std::isnan(x)
                         : j == 65 ? x == std::copysign(kInfinity, a.at(i, 2))
                                   : std::isfinite(x);
      if (!right) BOOST_ERROR("element " << i << ", " << j << " is " << x);
    }
}

BOOST_AUTO_TEST_CASE(the_number_of_pool_threads_does_not_change_a_bit) {
  const int threads_before = pool_threads();
  const struct {
    Index m, n, k;
  } shapes[] = {{256, 384, 1100}, {1300, 150, 70}, {13, 999, 600}};
  for (const auto& s : shapes) {
    Operand a(s.m, s.k, false, 0, 1), b(s.k, s.n, true, 0, 2);
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 8}) {
      set_pool_threads(threads);
      std::vector<float> c = random_floats(s.m * s.n, 3);
      gemm(s.m, s.n, s.k, 1, a.view(), b.view(), 1, c.data(), s.n);
      if (first.empty()) first = c;
      BOOST_TEST((c == first), threads << " threads");
    }
  }
  set_pool_threads(threads_before);
}

BOOST_AUTO_TEST_SUITE_END()

// ---- cublas.cpp -----------------------------------------------------------------------------------------------------

// A column-major product of m x k ones with k x n ones through cublasGemmEx.
struct Call {
  cublasHandle_t handle = nullptr;
  int m = 2, n = 3, k = 4, lda = 2, ldb = 4, ldc = 2;
  float alpha = 1, beta = 0;
  std::vector<float> a = std::vector<float>(8, 1.f), b = std::vector<float>(12, 1.f), c = std::vector<float>(6, kNaN);

  cublasStatus_t operator()() {
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, a.data(), CUDA_R_32F, lda, b.data(),
                        CUDA_R_32F, ldb, &beta, c.data(), CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
};

struct Handle {
  cublasHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  Handle() {
    BOOST_REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    BOOST_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    BOOST_REQUIRE(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
  }
  ~Handle() {
    cublasDestroy(handle);
    cudaStreamDestroy(stream);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

BOOST_AUTO_TEST_SUITE(cublas)

BOOST_FIXTURE_TEST_CASE(a_product_runs_in_order_on_the_stream_of_its_handle, Handle) {
  Call call{.handle = handle};
  BOOST_REQUIRE(call() == CUBLAS_STATUS_SUCCESS);
  call.beta = 2;
  BOOST_REQUIRE(call() == CUBLAS_STATUS_SUCCESS);
  call.alpha = call.beta = kNaN;  // read at the call, so no longer needed
  BOOST_REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  for (const float x : call.c) BOOST_TEST(x == 12.f);
}

BOOST_FIXTURE_TEST_CASE(products_on_two_streams_do_not_mix, Handle) {
  Handle other;
  const Index n = 150;
  const std::vector<float> x = random_floats(n * n, 1), y = random_floats(n * n, 2);
  std::vector<float> xy(x.size()), yx(x.size()), expected_xy(x.size()), expected_yx(x.size());
  gemm(n, n, n, 1, {y.data(), n, 1}, {x.data(), n, 1}, 0, expected_xy.data(), n);
  gemm(n, n, n, 1, {x.data(), n, 1}, {y.data(), n, 1}, 0, expected_yx.data(), n);
  const auto product = [n = static_cast<int>(n)](cublasHandle_t on, const float* a, const float* b, float* c) {
    const float one = 1, zero = 0;
    return cublasGemmEx(on, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_32F, n, b, CUDA_R_32F, n, &zero, c,
                        CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  for (int i = 0; i < 10; ++i) {
    BOOST_REQUIRE(product(handle, x.data(), y.data(), xy.data()) == CUBLAS_STATUS_SUCCESS);
    BOOST_REQUIRE(product(other.handle, y.data(), x.data(), yx.data()) == CUBLAS_STATUS_SUCCESS);
  }
  BOOST_REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_REQUIRE(cudaStreamSynchronize(other.stream) == cudaSuccess);
  BOOST_TEST((xy == expected_xy));
  BOOST_TEST((yx == expected_yx));
}

BOOST_FIXTURE_TEST_CASE(wrong_arguments_are_answered_at_the_call_and_write_nothing, Handle) {
  const auto status = [&](auto change) {
    Call call{.handle = handle};
    change(call);
    const cublasStatus_t answer = call();
    BOOST_REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    for (const float x : call.c) BOOST_TEST(std::isnan(x));
    return answer;
  };
  BOOST_TEST(status([](Call& c) { c.handle = nullptr; }) == CUBLAS_STATUS_NOT_INITIALIZED);
  BOOST_TEST(status([](Call& c) { c.m = -1; }) == CUBLAS_STATUS_INVALID_VALUE);
  BOOST_TEST(status([](Call& c) { c.lda = 1; }) == CUBLAS_STATUS_INVALID_VALUE);
  BOOST_TEST(status([](Call& c) { c.ldb = 3; }) == CUBLAS_STATUS_INVALID_VALUE);
  BOOST_TEST(status([](Call& c) { c.ldc = 1; }) == CUBLAS_STATUS_INVALID_VALUE);
  BOOST_TEST(status([](Call& c) { c.n = 0; }) == CUBLAS_STATUS_SUCCESS);
}

BOOST_FIXTURE_TEST_CASE(an_armed_fault_fails_the_call, Handle) {
  fail_call("cublasGemmEx", 2, cudaErrorMemoryAllocation);
  Call call{.handle = handle};
  BOOST_TEST(call() == CUBLAS_STATUS_SUCCESS);
  BOOST_TEST(call() == CUBLAS_STATUS_ALLOC_FAILED);
  BOOST_TEST(call() == CUBLAS_STATUS_SUCCESS);
  BOOST_TEST((cudaStreamSynchronize(stream) == cudaSuccess));
  reset_faults();
}

BOOST_AUTO_TEST_CASE(every_status_has_its_name) {
  BOOST_TEST(cublasGetStatusName(CUBLAS_STATUS_SUCCESS) == std::string("CUBLAS_STATUS_SUCCESS"));
  BOOST_TEST(cublasGetStatusName(CUBLAS_STATUS_LICENSE_ERROR) == std::string("CUBLAS_STATUS_LICENSE_ERROR"));
  BOOST_TEST(cublasGetStatusString(CUBLAS_STATUS_ALLOC_FAILED) == std::string("the resource allocation failed"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::hostcuda
