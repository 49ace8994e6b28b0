// matmul_test.cpp - the three products of a linear layer, row-major, on the device and through cuBLAS, against Eigen in
// double; and what every product declares.
#include "kernels/matmul.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <eigen3/Eigen/Core>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/fixture.h"

namespace spillway::kernels {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void require(cudaError_t status) {
  BOOST_REQUIRE_MESSAGE(status == cudaSuccess, cudaGetErrorString(status));
}

// A matrix on the device.
class DeviceMatrix {
 public:
  explicit DeviceMatrix(const FloatMatrix& m) : rows_(m.rows()), columns_(m.cols()) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()));
    require(cudaMemcpy(data_, m.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~DeviceMatrix() { cudaFree(data_); }
  DeviceMatrix(const DeviceMatrix&) = delete;
  DeviceMatrix& operator=(const DeviceMatrix&) = delete;
  float* data() const { return data_; }
  FloatMatrix read() const {
    FloatMatrix m(rows_, columns_);
    require(cudaMemcpy(m.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return m;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(rows_ * columns_) * sizeof(float); }
  Index rows_, columns_;
  float* data_ = nullptr;
};

struct Device {
  cudaStream_t stream = nullptr;
  cublasHandle_t handle = nullptr;
  Device() {
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    BOOST_REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    BOOST_REQUIRE(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
  }
  ~Device() {
    cublasDestroy(handle);
    cudaStreamDestroy(stream);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  void synchronize() const { require(cudaStreamSynchronize(stream)); }
};

FloatMatrix random_matrix(Index rows, Index columns, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  return FloatMatrix::NullaryExpr(rows, columns, [&] { return uniform(generator); });
}

void check_close(const FloatMatrix& got, const Matrix& expected, const std::string& what) {
  const double error = (got.cast<double>() - expected).norm() / expected.norm();
  BOOST_TEST(error <= 1e-6, what << ": relative error " << error);
}

// Collects what launches declare for as long as it lives.
struct Declared {
  std::vector<Work> work;
  Declared() {
    set_launch_listener(
        [](void* self, const Work& w, cudaStream_t) { static_cast<Declared*>(self)->work.push_back(w); }, this);
  }
  ~Declared() { set_launch_listener(nullptr, nullptr); }
  Declared(const Declared&) = delete;
  Declared& operator=(const Declared&) = delete;
};

BOOST_FIXTURE_TEST_SUITE(matmul_test, Device)

BOOST_AUTO_TEST_CASE(the_three_products_of_a_linear_layer_match_eigen_in_double) {
  const struct {
    Index rows, in, out;
  } shapes[] = {{1, 1, 1}, {5, 7, 3}, {64, 96, 32}, {130, 65, 257}};
  for (const auto& s : shapes) {
    const FloatMatrix x = random_matrix(s.rows, s.in, 1), w = random_matrix(s.out, s.in, 2);
    const FloatMatrix dy = random_matrix(s.rows, s.out, 3);
    const Matrix xd = x.cast<double>(), wd = w.cast<double>(), dyd = dy.cast<double>();
    const FloatMatrix dx_before = random_matrix(s.rows, s.in, 4), dw_before = random_matrix(s.out, s.in, 5);
    const DeviceMatrix dev_x(x), dev_w(w), dev_dy(dy), y(FloatMatrix::Constant(s.rows, s.out, kNaN));
    const DeviceMatrix dx(FloatMatrix::Constant(s.rows, s.in, kNaN)), dw(FloatMatrix::Constant(s.out, s.in, kNaN));
    const DeviceMatrix dx_sum(dx_before), dw_sum(dw_before);

    linear_forward(handle, y.data(), dev_x.data(), dev_w.data(), s.rows, s.in, s.out, stream);
    linear_backward_input(handle, dx.data(), dev_dy.data(), dev_w.data(), 0.f, s.rows, s.in, s.out, stream);
    linear_backward_weight(handle, dw.data(), dev_dy.data(), dev_x.data(), 0.f, s.rows, s.in, s.out, stream);
    linear_backward_input(handle, dx_sum.data(), dev_dy.data(), dev_w.data(), 1.f, s.rows, s.in, s.out, stream);
    linear_backward_weight(handle, dw_sum.data(), dev_dy.data(), dev_x.data(), 1.f, s.rows, s.in, s.out, stream);
    synchronize();

    check_close(y.read(), xd * wd.transpose(), "y");
    check_close(dx.read(), dyd * wd, "dx");
    check_close(dw.read(), dyd.transpose() * xd, "dweight");
    check_close(dx_sum.read(), dyd * wd + dx_before.cast<double>(), "dx added to");
    check_close(dw_sum.read(), dyd.transpose() * xd + dw_before.cast<double>(), "dweight added to");
  }
}

BOOST_AUTO_TEST_CASE(both_operands_may_be_transposed) {
  const FloatMatrix a = random_matrix(11, 6, 1), b = random_matrix(9, 11, 2);
  const DeviceMatrix dev_a(a), dev_b(b), c(FloatMatrix::Zero(6, 9));
  matmul(handle, Transpose::yes, Transpose::yes, 6, 9, 11, dev_a.data(), dev_b.data(), 0.f, c.data(), stream);
  synchronize();
  check_close(c.read(), a.cast<double>().transpose() * b.cast<double>().transpose(), "c");
}

BOOST_AUTO_TEST_CASE(a_product_without_terms_only_scales) {
  const DeviceMatrix c(FloatMatrix::Constant(2, 3, 8.f));
  matmul(handle, Transpose::no, Transpose::yes, 2, 3, 0, c.data(), c.data(), 0.5f, c.data(), stream);
  synchronize();
  BOOST_TEST((c.read().array() == 4.f).all());
}

BOOST_AUTO_TEST_CASE(an_empty_product_is_not_issued) {
  Declared declared;
  matmul<float>(handle, Transpose::no, Transpose::no, 0, 3, 4, nullptr, nullptr, 0.f, nullptr, stream);
  BOOST_TEST(declared.work.empty());
}

BOOST_AUTO_TEST_CASE(a_product_declares_its_flops_and_the_bytes_of_its_three_matrices) {
  Declared declared;
  const DeviceMatrix a(FloatMatrix::Zero(2, 5)), b(FloatMatrix::Zero(5, 3)), c(FloatMatrix::Zero(2, 3));
  for (const float beta : {0.f, 1.f})
    matmul(handle, Transpose::no, Transpose::no, 2, 3, 5, a.data(), b.data(), beta, c.data(), stream);
  synchronize();
  BOOST_REQUIRE(declared.work.size() == 2);
  for (const Work& w : declared.work) {
    BOOST_TEST(w.name == std::string("matmul"));
    BOOST_TEST(w.flops == 60);
  }
  BOOST_TEST(declared.work[0].bytes == (10 + 15 + 6) * 4);
  BOOST_TEST(declared.work[1].bytes == (10 + 15 + 12) * 4);
}

BOOST_AUTO_TEST_CASE(sizes_beyond_what_cublas_takes_are_refused_in_one_line) {
  const Index too_large = Index{1} << 31;
  BOOST_CHECK_EXCEPTION(
      matmul<float>(handle, Transpose::no, Transpose::no, 1, too_large, 1, nullptr, nullptr, 0.f, nullptr, stream),
      std::invalid_argument, [](const std::invalid_argument& e) {
        return e.what() == std::string("matmul (1, 1) x (1, 2147483648): cuBLAS takes sizes from 0 to 2147483647");
      });
}

BOOST_AUTO_TEST_CASE(an_error_of_cublas_names_the_product) {
  BOOST_CHECK_EXCEPTION(
      matmul<float>(nullptr, Transpose::no, Transpose::no, 1, 2, 3, nullptr, nullptr, 0.f, nullptr, stream),
      std::runtime_error, [](const std::runtime_error& e) {
        return std::string(e.what()).starts_with(
            "matmul (1, 3) x (3, 2): cublasGemmEx answered CUBLAS_STATUS_NOT_INITIALIZED: ");
      });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
