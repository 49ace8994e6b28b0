// matmul_test.cpp - the three products of a linear layer, row-major, on the device and through cuBLAS, against Eigen in
// double; and what every product declares.
#include "kernels/matmul.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/cuda.h"
#include "test/fixture.h"
#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"

namespace spillway::kernels {
namespace {

using test::Floats, test::Matrix, test::matrix, test::normals, test::stream, test::Vector;

struct Blas {
  Cublas cublas{stream()};
  cublasHandle_t handle = cublas.get();
};

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

BOOST_FIXTURE_TEST_SUITE(matmul_test, Blas)

BOOST_AUTO_TEST_CASE(the_three_products_of_a_linear_layer_match_eigen_in_double) {
  const struct {
    Index rows, in, out;
  } shapes[] = {{1, 1, 1}, {5, 7, 3}, {64, 96, 32}, {130, 65, 257}};
  for (const auto& [rows, in, out] : shapes) {
    const Vector x = normals(rows * in, 1), w = normals(out * in, 2), dy = normals(rows * out, 3);
    const Vector dx_before = normals(rows * in, 4), dw_before = normals(out * in, 5);
    const Matrix xm = matrix(x, rows, in), wm = matrix(w, out, in), dym = matrix(dy, rows, out);
    const Floats dev_x(x), dev_w(w), dev_dy(dy), dx_sum(dx_before), dw_sum(dw_before);
    const Floats y(rows * out), dx(rows * in), dw(out * in);  // NaN until written

    linear_forward<float>(handle, y, dev_x, dev_w, rows, in, out, stream());
    linear_backward_input<float>(handle, dx, dev_dy, dev_w, 0, rows, in, out, stream());
    linear_backward_weight<float>(handle, dw, dev_dy, dev_x, 0, rows, in, out, stream());
    linear_backward_input<float>(handle, dx_sum, dev_dy, dev_w, 1, rows, in, out, stream());
    linear_backward_weight<float>(handle, dw_sum, dev_dy, dev_x, 1, rows, in, out, stream());

    BOOST_TEST(test::error(y.download(), xm * wm.transpose()) <= test::kTolerance);
    BOOST_TEST(test::error(dx.download(), dym * wm) <= test::kTolerance);
    BOOST_TEST(test::error(dw.download(), dym.transpose() * xm) <= test::kTolerance);
    BOOST_TEST(test::error(dx_sum.download(), dym * wm + matrix(dx_before, rows, in)) <= test::kTolerance);
    BOOST_TEST(test::error(dw_sum.download(), dym.transpose() * xm + matrix(dw_before, out, in)) <= test::kTolerance);
  }
}

BOOST_AUTO_TEST_CASE(both_operands_may_be_transposed) {
  const Vector a = normals(11 * 6, 1), b = normals(9 * 11, 2);
  const Floats dev_a(a), dev_b(b), c(6 * 9);
  matmul<float, float>(handle, Transpose::yes, Transpose::yes, 6, 9, 11, dev_a, dev_b, 0, c, stream());
  const Matrix expected = matrix(a, 11, 6).transpose() * matrix(b, 9, 11).transpose();
  BOOST_TEST(test::error(c.download(), expected) <= test::kTolerance);
}

BOOST_AUTO_TEST_CASE(a_product_without_terms_only_scales) {
  const Floats c(Vector(6, 8.f));
  matmul<float, float>(handle, Transpose::no, Transpose::yes, 2, 3, 0, c, c, 0.5f, c, stream());
  BOOST_TEST(c.download() == Vector(6, 4.f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_empty_product_is_not_issued) {
  Declared declared;
  matmul<float, float>(handle, Transpose::no, Transpose::no, 0, 3, 4, nullptr, nullptr, 0, nullptr, stream());
  BOOST_TEST(declared.work.empty());
}

BOOST_AUTO_TEST_CASE(a_product_declares_its_flops_and_the_bytes_of_its_three_matrices) {
  Declared declared;
  const Floats a(Vector(10)), b(Vector(15)), c(Vector(6));
  for (const float beta : {0.f, 1.f})
    matmul<float, float>(handle, Transpose::no, Transpose::no, 2, 3, 5, a, b, beta, c, stream());
  check(cudaStreamSynchronize(stream()));
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
      (matmul<float, float>(handle, Transpose::no, Transpose::no, 1, too_large, 1, nullptr, nullptr, 0, nullptr,
                            stream())),
      std::invalid_argument, [](const std::invalid_argument& e) {
        return e.what() == std::string("matmul (1, 1) x (1, 2147483648): cuBLAS takes sizes from 0 to 2147483647");
      });
}

BOOST_AUTO_TEST_CASE(an_error_of_cublas_names_the_product) {
  BOOST_CHECK_EXCEPTION(
      (matmul<float, float>(nullptr, Transpose::no, Transpose::no, 1, 2, 3, nullptr, nullptr, 0, nullptr, stream())),
      std::runtime_error, [](const std::runtime_error& e) {
        return std::string(e.what()).starts_with(
            "matmul (1, 3) x (3, 2): cublasGemmEx answered CUBLAS_STATUS_NOT_INITIALIZED: ");
      });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
