// key_bias_test.cpp - the terms of the key bias's gradient against complex numbers in double, each dimension by its own
// measure: in the slow ones the terms are ten thousand times smaller than dk, and must be as exact. (What this is good
// for shows in the model's golden numbers, where AdamW steps by gradient over its own size.)
#include "kernels/key_bias.h"

#include <complex>

#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

struct Shape {
  Index batch, seq, heads, head_dim;
  Index rows() const { return batch * seq; }
  Index width() const { return heads * head_dim; }
};

struct Tables {
  explicit Tables(const Shape& s) {
    for (Index t = 0; t < s.seq; ++t)
      for (Index i = 0; i < s.head_dim / 2; ++i) {
        const double angle = static_cast<double>(t) * std::pow(1e6, -2. * static_cast<double>(i) / s.head_dim);
        angles.push_back(angle);
        cosine.push_back(static_cast<float>(std::cos(angle)));
        sine.push_back(static_cast<float>(std::sin(angle)));
      }
  }
  std::vector<double> angles;
  Vector cosine, sine;
};

// (e^(-i angle) - 1) z for each pair z = (low, high).
Matrix terms(const Vector& dk, const Shape& s, const Tables& tables) {
  const Index half = s.head_dim / 2;
  Matrix out(s.rows(), s.width());
  for (Index row = 0; row < s.rows(); ++row)
    for (Index low = 0; low < s.width(); ++low) {
      if (low % s.head_dim >= half) continue;
      const double angle = tables.angles[(row % s.seq) * half + low % s.head_dim];
      const double sine_of_half = std::sin(angle / 2);
      const std::complex turn(-2 * sine_of_half * sine_of_half, -std::sin(angle));
      const auto z = std::complex(double{dk[row * s.width() + low]}, double{dk[row * s.width() + low + half]}) * turn;
      out(row, low) = z.real();
      out(row, low + half) = z.imag();
    }
  return out;
}

BOOST_AUTO_TEST_SUITE(key_bias)

BOOST_AUTO_TEST_CASE(each_term_is_accurate_relative_to_itself_however_slowly_its_dimension_turns) {
  for (const Shape& s : {Shape{1, 1, 1, 16}, Shape{2, 48, 2, 16}, Shape{3, 7, 1, 64}}) {
    const Vector dk = normals(s.rows() * s.width(), 1);
    const Tables tables(s);
    const Floats device_dk(dk), cosine(tables.cosine), sine(tables.sine);
    const Matrix expected = terms(dk, s, tables);
    in_every_variant(
        [&] {
          const Floats out(s.rows() * s.width());
          key_bias_terms<float>(out, device_dk, cosine, sine, s.batch, s.seq, s.heads, s.head_dim, stream());
          return Outputs{out.download()};
        },
        [&](const Outputs& out) {
          const Matrix found = matrix(out[0], s.rows(), s.width());
          for (Index column = 0; column < s.width(); ++column) {  // a column is a dimension: one speed of turning
            const double scale = expected.col(column).cwiseAbs().maxCoeff();
            BOOST_TEST((found.col(column) - expected.col(column)).cwiseAbs().maxCoeff() <= 2e-6 * scale);
          }
        });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
