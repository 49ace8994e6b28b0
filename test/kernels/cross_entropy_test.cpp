// cross_entropy_test.cpp - losses and gradients of softmax cross-entropy against double, in ordinary rows and at the
// edges: ignored targets, huge logits, rows far longer than a block, NaNs.
#include "kernels/cross_entropy.h"

#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

struct Expected {
  Matrix losses, gradient;
};
Expected reference(const Vector& logits, const std::vector<std::int32_t>& targets, Index vocab, double scale) {
  const Index rows = static_cast<Index>(targets.size());
  const Matrix z = matrix(logits, rows, vocab);
  Expected e{Matrix::Zero(rows, 1), Matrix::Zero(rows, vocab)};
  for (Index r = 0; r < rows; ++r) {
    if (targets[r] < 0) continue;
    const double top = z.row(r).maxCoeff();
    const Eigen::RowVectorXd terms = (z.row(r).array() - top).exp().matrix();
    e.losses(r, 0) = top + std::log(terms.sum()) - z(r, targets[r]);
    e.gradient.row(r) = scale / terms.sum() * terms;
    e.gradient(r, targets[r]) -= scale;
  }
  return e;
}

// Losses alone, then losses and gradients.
Outputs run(const Vector& logits, const std::vector<std::int32_t>& targets, Index vocab, float scale) {
  const Index rows = static_cast<Index>(targets.size());
  const Floats device_logits(logits), losses(rows), losses_alone(rows);
  const Ids device_targets(targets);
  cross_entropy_forward<float>(losses_alone, device_logits, device_targets, rows, vocab, stream());
  const Vector unchanged = device_logits.download();
  cross_entropy_forward_backward<float>(losses, device_logits, device_targets, rows, vocab, scale, stream());
  return {losses.download(), device_logits.download(), losses_alone.download(), unchanged};
}

BOOST_AUTO_TEST_SUITE(cross_entropy)

BOOST_AUTO_TEST_CASE(losses_and_gradients_match_double_and_an_ignored_row_has_none) {
  for (const auto& [rows, vocab] : {std::pair<Index, Index>{1, 1}, {2, 7}, {9, 33}, {5, 1501}, {3, 5000}}) {
    const Vector logits = normals(rows * vocab, 1, 3);
    std::vector<std::int32_t> targets;
    for (Index r = 0; r < rows; ++r)
      targets.push_back(r % 4 == 1 ? -100 : static_cast<std::int32_t>((r * 397 + vocab - 1) % vocab));
    const Expected expected = reference(logits, targets, vocab, 0.25);
    in_every_variant([&] { return run(logits, targets, vocab, 0.25f); },
                     [&](const Outputs& out) {
                       BOOST_TEST(error(out[0], expected.losses) < kTolerance);
                       BOOST_TEST(error(out[1], expected.gradient) < kTolerance);
                       BOOST_TEST(same_bits({out[2]}, {out[0]}));
                       BOOST_TEST(same_bits({out[3]}, {logits}));
                     });
  }
}

BOOST_AUTO_TEST_CASE(a_vocabulary_of_150000_loses_no_small_terms) {
  const Index vocab = 151936;
  const Vector logits = normals(2 * vocab, 1);
  const std::vector<std::int32_t> targets{17, static_cast<std::int32_t>(vocab - 1)};
  const Expected expected = reference(logits, targets, vocab, 1);
  in_every_variant([&] { return run(logits, targets, vocab, 1); },
                   [&](const Outputs& out) {
                     BOOST_TEST(error(out[0], expected.losses) < 1e-6);
                     BOOST_TEST(error(out[1], expected.gradient) < kTolerance);
                   },
                   {32, 256});
}

BOOST_AUTO_TEST_CASE(logits_of_any_size_give_finite_results) {
  const Index vocab = 40;
  Vector logits = normals(3 * vocab, 1);
  for (Index i = 0; i < vocab; ++i) {
    logits[i] *= 1e30f;             // one logit wins
    logits[vocab + i] = 0;          // all equal
    logits[2 * vocab + i] -= 1e4f;  // far below zero: the same as without the shift, to the shift's rounding
  }
  const std::vector<std::int32_t> targets{3, 5, 7};
  const Expected expected = reference(logits, targets, vocab, 1);
  in_every_variant([&] { return run(logits, targets, vocab, 1); },
                   [&](const Outputs& out) {
                     BOOST_TEST(error(out[0], expected.losses) < kTolerance);
                     BOOST_TEST(error(out[1], expected.gradient) < kTolerance);
                     BOOST_TEST(std::abs(out[0][1] - std::log(40.f)) < 1e-5f);
                   });
}

BOOST_AUTO_TEST_CASE(a_nan_logit_makes_the_loss_nan) {
  const Index vocab = 600;
  for (const Index where : {Index{0}, Index{299}, vocab - 1}) {
    Vector logits = normals(vocab, 1);
    logits[where] = std::numeric_limits<float>::quiet_NaN();
    in_every_variant([&] { return run(logits, {7}, vocab, 1); },
                     [&](const Outputs& out) {
                       BOOST_TEST(std::isnan(out[0][0]));
                       BOOST_TEST(std::isnan(out[2][0]));
                       BOOST_TEST(std::isnan(out[1][where]));
                     });
  }
}

BOOST_AUTO_TEST_CASE(mean_loss_sums_in_double_and_divides_by_the_count) {
  for (const Index n : {1, 7, 1000, 4097}) {
    const Vector losses = normals(n, 1, 5);
    const Floats device_losses(losses);
    const Matrix expected = Matrix::Constant(1, 1, matrix(losses, 1, n).sum() / 3);
    in_every_variant(
        [&] {
          const Floats mean(1);
          mean_loss(mean, device_losses, n, 3, stream());
          return Outputs{mean.download()};
        },
        [&](const Outputs& out) { BOOST_TEST(error(out[0], expected) < 1e-7); });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
