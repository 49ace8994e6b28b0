// elementwise_test.cpp - SwiGLU, the residual connection and the bias against their formulas in double, at lengths that
// are no multiple of anything.
#include "kernels/bias.h"
#include "kernels/residual.h"
#include "kernels/swiglu.h"
#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

constexpr Index kLengths[] = {1, 7, 33, 1000, 40007};

BOOST_AUTO_TEST_SUITE(elementwise)

BOOST_AUTO_TEST_CASE(swiglu_forward_is_silu_of_gate_times_up) {
  for (const Index n : kLengths) {
    const Vector gate = normals(n, 1, 4), up = normals(n, 2);
    const Floats device_gate(gate), device_up(up);
    const Eigen::ArrayXXd g = matrix(gate, 1, n).array(), u = matrix(up, 1, n).array();
    const Matrix expected = (g / (1 + (-g).exp()) * u).matrix();
    in_every_variant(
        [&] {
          const Floats s(n);
          swiglu_forward<float>(s, device_gate, device_up, n, stream());
          return Outputs{s.download()};
        },
        [&](const Outputs& out) { BOOST_TEST(error(out[0], expected) < kTolerance); });
  }
}

// The derivative is taken here by differences of the forward formula, not by the kernel's closed form.
BOOST_AUTO_TEST_CASE(swiglu_backward_is_the_derivative_even_when_dup_takes_the_place_of_ds) {
  for (const Index n : kLengths) {
    const Vector gate = normals(n, 1, 4), up = normals(n, 2), ds = normals(n, 3);
    const Floats device_gate(gate), device_up(up);
    const auto silu = [](double g) { return g / (1 + std::exp(-g)); };
    Matrix dgate(1, n), dup(1, n);
    for (Index i = 0; i < n; ++i) {
      const double g = gate[i], h = 1e-4;
      // Fourth-order central difference: its own error is about 1e-13 here.
      const double slope = (8 * (silu(g + h) - silu(g - h)) - (silu(g + 2 * h) - silu(g - 2 * h))) / (12 * h);
      dgate(0, i) = double{ds[i]} * up[i] * slope;
      dup(0, i) = double{ds[i]} * silu(g);
    }
    in_every_variant(
        [&] {
          const Floats dgate_out(n), apart(n), in_place(ds), device_ds(ds);
          swiglu_backward<float>(dgate_out, apart, device_ds, device_gate, device_up, n, stream());
          swiglu_backward<float>(dgate_out, in_place, in_place, device_gate, device_up, n, stream());
          return Outputs{dgate_out.download(), apart.download(), in_place.download()};
        },
        [&](const Outputs& out) {
          BOOST_TEST(error(out[0], dgate) < kTolerance);
          BOOST_TEST(error(out[1], dup) < kTolerance);
          BOOST_TEST(same_bits({out[1]}, {out[2]}));
        });
  }
}

BOOST_AUTO_TEST_CASE(swiglu_of_extreme_gates_is_finite_and_of_nan_is_nan) {
  const Vector gate{-1000, -100, -88, -0.f, 88, 100, 1000, std::numeric_limits<float>::quiet_NaN()};
  const Vector ones(gate.size(), 1);
  const Index n = static_cast<Index>(gate.size());
  const Floats device_gate(gate), device_ones(ones);
  in_every_variant(
      [&] {
        const Floats s(n), dgate(n), dup(n);
        swiglu_forward<float>(s, device_gate, device_ones, n, stream());
        swiglu_backward<float>(dgate, dup, device_ones, device_gate, device_ones, n, stream());
        return Outputs{s.download(), dgate.download(), dup.download()};
      },
      [&](const Outputs& out) {
        const Vector silu{0, 0, 0, 0, 88, 100, 1000}, slope{0, 0, 0, 0.5f, 1, 1, 1};
        for (std::size_t i = 0; i < silu.size(); ++i) {
          BOOST_TEST(std::abs(out[0][i] - silu[i]) < 1e-35f);
          BOOST_TEST(std::abs(out[1][i] - slope[i]) < 1e-35f);
          BOOST_TEST(std::abs(out[2][i] - silu[i]) < 1e-35f);
        }
        for (const Vector& values : out) BOOST_TEST(std::isnan(values.back()));
      });
}

BOOST_AUTO_TEST_CASE(residual_add_adds_exactly) {
  for (const Index n : kLengths) {
    const Vector a = normals(n, 1), b = normals(n, 2);
    const Floats device_b(b);
    in_every_variant(
        [&] {
          const Floats out(a);
          residual_add<float>(out, device_b, n, stream());
          return Outputs{out.download()};
        },
        [&](const Outputs& out) {
          Vector sum(a);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
          BOOST_TEST(same_bits(out, {sum}));
        });
  }
}

BOOST_AUTO_TEST_CASE(bias_is_added_to_every_row_and_its_gradient_is_the_sum_of_the_rows) {
  for (const auto& [rows, d] : {std::pair<Index, Index>{1, 1}, {7, 33}, {33, 64}, {75, 200}, {300, 129}}) {
    const Vector x = normals(rows * d, 1), bias = normals(d, 2);
    const Floats device_x(x), device_bias(bias);
    const Matrix sum = matrix(x, rows, d).rowwise() + Eigen::RowVectorXd(matrix(bias, 1, d).row(0));
    const Matrix columns = matrix(x, rows, d).colwise().sum();
    in_every_variant(
        [&] {
          const Floats out(x), dbias(d), scratch(bias_backward_scratch(rows, d));
          bias_forward<float>(out, device_bias, rows, d, stream());
          bias_backward<float>(dbias, scratch, device_x, rows, d, stream());
          return Outputs{out.download(), dbias.download()};
        },
        [&](const Outputs& out) {
          BOOST_TEST(error(out[0], sum) < kTolerance);
          BOOST_TEST(error(out[1], columns) < kTolerance);
        });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
