// rope_test.cpp - the rotation as complex numbers in double: element i and element i + half are one number, multiplied
// by e^(i angle); the backward pass by e^(-i angle).
#include "kernels/rope.h"

#include <complex>

#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

struct Shape {
  Index batch, seq, heads, head_dim;
};
constexpr Shape kShapes[] = {{1, 1, 1, 2}, {2, 7, 3, 16}, {1, 33, 2, 64}, {3, 5, 1, 128}, {2, 9, 5, 10}};

double angle(Index position, Index i, Index half) {
  return static_cast<double>(position) * std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half));
}

Matrix rotated(const Vector& x, const Vector& bias, const Shape& s, double sign) {
  const Index width = s.heads * s.head_dim, half = s.head_dim / 2;
  Matrix out(s.batch * s.seq, width);
  for (Index row = 0; row < s.batch * s.seq; ++row)
    for (Index head = 0; head < s.heads; ++head)
      for (Index i = 0; i < half; ++i) {
        const Index low = head * s.head_dim + i, high = low + half;
        const auto at = [&](Index column) {
          return double{x[row * width + column]} + (bias.empty() ? 0. : double{bias[column]});
        };
        const auto z = std::complex(at(low), at(high)) * std::polar(1., sign * angle(row % s.seq, i, half));
        out(row, low) = z.real();
        out(row, high) = z.imag();
      }
  return out;
}

struct Tables {
  explicit Tables(const Shape& s) {
    for (Index t = 0; t < s.seq; ++t)
      for (Index i = 0; i < s.head_dim / 2; ++i) {
        cosine.push_back(static_cast<float>(std::cos(angle(t, i, s.head_dim / 2))));
        sine.push_back(static_cast<float>(std::sin(angle(t, i, s.head_dim / 2))));
      }
  }
  Vector cosine, sine;
};

BOOST_AUTO_TEST_SUITE(rope)

BOOST_AUTO_TEST_CASE(forward_turns_pairs_by_the_angle_of_their_position_after_adding_the_bias) {
  for (const Shape& s : kShapes)
    for (const bool with_bias : {false, true}) {
      const Index n = s.batch * s.seq * s.heads * s.head_dim;
      const Vector x = normals(n, 1), bias = with_bias ? normals(s.heads * s.head_dim, 2) : Vector{};
      const Tables tables(s);
      const Floats cosine(tables.cosine), sine(tables.sine), device_bias(bias);
      const Matrix expected = rotated(x, bias, s, 1);
      in_every_variant(
          [&] {
            const Floats out(x);
            rope_forward<float>(out, with_bias ? device_bias.get() : nullptr, cosine, sine, s.batch, s.seq, s.heads,
                                s.head_dim, stream());
            return Outputs{out.download()};
          },
          [&](const Outputs& out) { BOOST_TEST(error(out[0], expected) < kTolerance); });
    }
}

BOOST_AUTO_TEST_CASE(backward_turns_back) {
  for (const Shape& s : kShapes) {
    const Vector dy = normals(s.batch * s.seq * s.heads * s.head_dim, 1);
    const Tables tables(s);
    const Floats cosine(tables.cosine), sine(tables.sine);
    const Matrix expected = rotated(dy, {}, s, -1);
    in_every_variant(
        [&] {
          const Floats out(dy);
          rope_backward<float>(out, cosine, sine, s.batch, s.seq, s.heads, s.head_dim, stream());
          return Outputs{out.download()};
        },
        [&](const Outputs& out) { BOOST_TEST(error(out[0], expected) < kTolerance); });
  }
}

BOOST_AUTO_TEST_CASE(an_odd_head_dim_is_refused) {
  const Floats x(3);
  BOOST_CHECK_THROW(rope_backward<float>(x, x, x, 1, 1, 1, 3, stream()), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
