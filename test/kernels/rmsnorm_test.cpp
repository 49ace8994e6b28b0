// rmsnorm_test.cpp - RMSNorm against double, forward and backward; the gradients against differences of the formula.
#include "kernels/rmsnorm.h"
#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

constexpr float kEps = 1e-6f;
constexpr std::pair<Index, Index> kShapes[] = {{1, 1}, {1, 64}, {7, 33}, {33, 200}, {75, 384}, {130, 48}};

Eigen::VectorXd rstd_of(const Matrix& x) {
  return (x.rowwise().squaredNorm().array() / static_cast<double>(x.cols()) + double{kEps}).rsqrt().matrix();
}
Matrix normalize(const Matrix& x, const Matrix& weight) {
  return rstd_of(x).asDiagonal() * x * weight.row(0).asDiagonal();
}

BOOST_AUTO_TEST_SUITE(rmsnorm)

BOOST_AUTO_TEST_CASE(forward_divides_each_row_by_its_root_mean_square) {
  for (const auto& [rows, d] : kShapes) {
    const Vector x = normals(rows * d, 1, 3), weight = normals(d, 2);
    const Floats device_x(x), device_weight(weight);
    const Matrix expected = normalize(matrix(x, rows, d), matrix(weight, 1, d));
    const Matrix expected_rstd = rstd_of(matrix(x, rows, d));
    in_every_variant(
        [&] {
          const Floats y(rows * d), rstd(rows);
          rmsnorm_forward<float>(y, rstd, device_x, device_weight, rows, d, kEps, stream());
          return Outputs{y.download(), rstd.download()};
        },
        [&](const Outputs& out) {
          BOOST_TEST(error(out[0], expected) < kTolerance);
          BOOST_TEST(error(out[1], expected_rstd) < kTolerance);
        });
  }
}

BOOST_AUTO_TEST_CASE(backward_adds_the_derivative_to_dx_and_sums_dweight) {
  for (const auto& [rows, d] : kShapes) {
    const Vector x = normals(rows * d, 1, 3), weight = normals(d, 2), dy = normals(rows * d, 3);
    const Vector before = normals(rows * d, 4);
    const Floats device_x(x), device_weight(weight), device_dy(dy);
    const Matrix X = matrix(x, rows, d), W = matrix(weight, 1, d), DY = matrix(dy, rows, d);
    const Eigen::VectorXd r = rstd_of(X);
    // y_j = w_j x_j r and dr / dx_i = -x_i r^3 / d.
    Matrix dx = matrix(before, rows, d);
    for (Index row = 0; row < rows; ++row) {
      const Eigen::RowVectorXd g = DY.row(row).cwiseProduct(W.row(0));
      dx.row(row) += r[row] * g - std::pow(r[row], 3) / static_cast<double>(d) * g.dot(X.row(row)) * X.row(row);
    }
    const Matrix dweight = (r.asDiagonal() * DY.cwiseProduct(X)).colwise().sum();
    Vector rstd(static_cast<std::size_t>(rows));
    for (Index row = 0; row < rows; ++row) rstd[row] = static_cast<float>(r[row]);
    const Floats device_rstd(rstd);
    in_every_variant(
        [&] {
          const Floats dx_out(before), dweight_out(d), scratch(rmsnorm_backward_scratch(rows, d));
          rmsnorm_backward<float>(dx_out, dweight_out, scratch, device_dy, device_x, device_weight, device_rstd, rows,
                                  d, stream());
          return Outputs{dx_out.download(), dweight_out.download()};
        },
        [&](const Outputs& out) {
          BOOST_TEST(error(out[0], dx) < kTolerance);
          BOOST_TEST(error(out[1], dweight) < kTolerance);
        });
  }
}

BOOST_AUTO_TEST_CASE(backward_agrees_with_differences_of_the_formula) {
  const Index rows = 3, d = 20;
  const Vector x = normals(rows * d, 1), weight = normals(d, 2), dy = normals(rows * d, 3);
  const Matrix X = matrix(x, rows, d), W = matrix(weight, 1, d), DY = matrix(dy, rows, d);
  const auto loss = [&](const Matrix& at_x, const Matrix& at_w) {
    return normalize(at_x, at_w).cwiseProduct(DY).sum();
  };
  Matrix dx(rows, d), dweight(1, d);
  Matrix moving_x = X, moving_w = W;
  const auto difference = [&](double& element) {
    const double h = 1e-5, centre = element;
    element = centre + h;
    const double above = loss(moving_x, moving_w);
    element = centre - h;
    const double below = loss(moving_x, moving_w);
    element = centre;
    return (above - below) / (2 * h);
  };
  for (Index i = 0; i < rows * d; ++i) dx.data()[i] = difference(moving_x.data()[i]);
  for (Index i = 0; i < d; ++i) dweight.data()[i] = difference(moving_w.data()[i]);

  const Floats y(rows * d), rstd(rows), dx_out(Vector(x.size(), 0)), dweight_out(d),
      scratch(rmsnorm_backward_scratch(rows, d));
  const Floats device_x(x), device_weight(weight), device_dy(dy);
  rmsnorm_forward<float>(y, rstd, device_x, device_weight, rows, d, kEps, stream());
  rmsnorm_backward<float>(dx_out, dweight_out, scratch, device_dy, device_x, device_weight, rstd, rows, d, stream());
  BOOST_TEST(error(dx_out.download(), dx) < kTolerance);
  BOOST_TEST(error(dweight_out.download(), dweight) < kTolerance);
}

BOOST_AUTO_TEST_CASE(a_row_of_zeros_gives_zeros_and_a_nan_stays_in_its_row) {
  const Index rows = 3, d = 40;
  Vector x = normals(rows * d, 1);
  std::fill(x.begin(), x.begin() + d, 0.f);
  x[d + 5] = std::numeric_limits<float>::quiet_NaN();
  const Floats device_x(x), device_weight(normals(d, 2));
  in_every_variant(
      [&] {
        const Floats y(rows * d), rstd(rows);
        rmsnorm_forward<float>(y, rstd, device_x, device_weight, rows, d, kEps, stream());
        return Outputs{y.download(), rstd.download()};
      },
      [&](const Outputs& out) {
        for (Index i = 0; i < d; ++i) {
          BOOST_TEST(out[0][i] == 0.f);
          BOOST_TEST(std::isnan(out[0][d + i]));
          BOOST_TEST(std::isfinite(out[0][2 * d + i]));
        }
        BOOST_TEST(std::abs(out[1][0] - 1e3f) < 1e-2f);
      });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
