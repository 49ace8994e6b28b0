// adamw_test.cpp - several steps against the update rule in double.
#include "kernels/adamw.h"

#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

BOOST_AUTO_TEST_SUITE(adamw_step)

BOOST_AUTO_TEST_CASE(three_steps_match_double) {
  const AdamW options{.lr = 1e-2, .weight_decay = 0.1};
  for (const Index n : {1, 33, 5003}) {
    const Vector start = normals(n, 1);
    Eigen::ArrayXd p = matrix(start, n, 1).array(), m = Eigen::ArrayXd::Zero(n), v = Eigen::ArrayXd::Zero(n);
    std::vector<Vector> gradients;
    for (int step = 1; step <= 3; ++step) {
      gradients.push_back(normals(n, static_cast<std::uint32_t>(10 + step), 0.1f));
      const Eigen::ArrayXd g = matrix(gradients.back(), n, 1).array();
      m = options.beta1 * m + (1 - options.beta1) * g;
      v = options.beta2 * v + (1 - options.beta2) * g * g;
      const Eigen::ArrayXd m_hat = m / (1 - std::pow(options.beta1, step));
      const Eigen::ArrayXd v_hat = v / (1 - std::pow(options.beta2, step));
      p = p * (1 - options.lr * options.weight_decay) - options.lr * m_hat / (v_hat.sqrt() + options.eps);
    }
    in_every_variant(
        [&] {
          const Floats parameter(start), first(Vector(start.size(), 0)), second(Vector(start.size(), 0));
          for (int step = 1; step <= 3; ++step) {
            const Floats gradient(gradients[static_cast<std::size_t>(step - 1)]);
            adamw(parameter, first, second, gradient, n, options, step, stream());
          }
          return Outputs{parameter.download(), first.download(), second.download()};
        },
        [&](const Outputs& out) {
          BOOST_TEST(error(out[0], p.matrix()) < kTolerance);
          BOOST_TEST(error(out[1], m.matrix()) < kTolerance);
          BOOST_TEST(error(out[2], v.matrix()) < kTolerance);
        });
  }
}

// The bias corrections make the first step lr * sign(g), whatever the gradient's size: the hardest place for accuracy.
BOOST_AUTO_TEST_CASE(the_first_step_moves_by_lr_for_gradients_of_any_size) {
  const Vector gradient{1e-3f, -1e-1f, 1, -1e3f, 1e6f, 0};
  const Index n = static_cast<Index>(gradient.size());
  const Floats device_gradient(gradient);
  in_every_variant(
      [&] {
        const Floats parameter(Vector(gradient.size(), 0)), m(Vector(gradient.size(), 0)),
            v(Vector(gradient.size(), 0));
        adamw(parameter, m, v, device_gradient, n, {.lr = 1e-3, .eps = 1e-12}, 1, stream());
        return Outputs{parameter.download()};
      },
      [&](const Outputs& out) {
        const Vector expected{-1e-3f, 1e-3f, -1e-3f, 1e-3f, -1e-3f, 0};
        BOOST_TEST(error(out[0], matrix(expected, 1, n)) < 1e-6);
      });
}

BOOST_AUTO_TEST_CASE(a_nan_gradient_makes_the_parameter_nan) {
  const Floats parameter(Vector{1}), m(Vector{0}), v(Vector{0}), g(Vector{std::numeric_limits<float>::quiet_NaN()});
  adamw(parameter, m, v, g, 1, {}, 1, stream());
  BOOST_TEST(std::isnan(parameter.download()[0]));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
