// gradient_test.cpp - losses and gradients of the whole model against a forward pass in double that shares nothing with
// it (reference_model.h). A gradient is judged by central differences along directions: for a unit direction u,
// (L(w + e u) - L(w - e u)) / 2e = <gradient, u> up to e^2.
#include "test/model/model_fixture.h"
#include "test/model/reference_model.h"

namespace spillway::test {
namespace {

struct Case {
  std::string name;
  model::Config config;
  std::int64_t batch, seq, lmhead_chunk;
};

std::vector<Case> cases() {
  model::Config tied_without_bias = tied_config(), untied_with_bias = untied_config();
  tied_without_bias.qkv_bias = false;
  untied_with_bias.qkv_bias = true;
  if (kSlowBuild) return {{"untied, bias, chunks across rows of the batch", untied_with_bias, 2, 5, 3}};
  return {{"tied, bias, batch 3, odd seq", tied_config(), 3, 13, 0},
          {"untied, no bias", untied_config(), 2, 10, 7},
          {"tied, no bias, one row of three", tied_without_bias, 1, 3, 0},
          {"untied, bias, chunks across rows of the batch", untied_with_bias, 3, 7, 5}};
}

ReferenceModel reference_of(const model::Config& config, const model::Parameters& parameters) {
  ReferenceModel reference(config);
  for (const model::Parameter& p : parameters.all()) {
    const std::vector<float> values = model::read_back(p.value);
    const std::int64_t columns = p.shape.back();
    Matrix m(p.elements() / columns, columns);
    for (Eigen::Index i = 0; i < m.size(); i++) m.data()[i] = values[static_cast<std::size_t>(i)];
    reference.weights[p.name] = m;
  }
  return reference;
}

// (L(w + e u) - L(w - e u)) / 2e for the parameter `w`, with |u| = 1.
double slope(ReferenceModel& reference, const std::string& name, const Matrix& u, const data::TokenBatch& tokens) {
  Matrix& w = reference.weights.at(name);
  const Matrix original = w;
  constexpr double e = 1e-4;
  w = original + e * u;
  const double above = reference.loss(tokens);
  w = original - e * u;
  const double below = reference.loss(tokens);
  w = original;
  return (above - below) / (2 * e);
}

struct GradientFixture : HostDevice {
  Machine machine;
};

BOOST_FIXTURE_TEST_SUITE(gradients_of_the_whole_model, GradientFixture)

BOOST_AUTO_TEST_CASE(logits_and_losses_are_the_references) {
  for (const Case& c : cases()) {
    BOOST_TEST_CONTEXT(c.name) {
      model::TrainerOptions options{.batch = c.batch, .seq = c.seq, .lmhead_chunk = c.lmhead_chunk};
      model::Trainer trainer(c.config, options, machine.allocator);
      randomize(trainer.parameters(), 5);
      const data::TokenBatch tokens = random_batch(c.config, c.batch, c.seq, 7);
      const ReferenceModel reference = reference_of(c.config, trainer.parameters());

      const Matrix expected = reference.logits(tokens);
      const std::vector<float> logits = trainer.logits(tokens);
      BOOST_REQUIRE(logits.size() == static_cast<std::size_t>(expected.size()));
      double worst = 0;
      for (Eigen::Index i = 0; i < expected.size(); i++)
        worst = std::max(worst, std::abs(logits[static_cast<std::size_t>(i)] - expected.data()[i]));
      BOOST_TEST(worst < 2e-5 * expected.cwiseAbs().maxCoeff());

      const double loss = reference.loss(tokens);
      BOOST_TEST(trainer.evaluate(tokens) == loss, boost::test_tools::tolerance(1e-6));
      BOOST_TEST(trainer.step(tokens).loss == loss, boost::test_tools::tolerance(1e-6));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_gradient_is_the_slope_of_the_references_loss) {
  for (const Case& c : cases()) {
    model::TrainerOptions options{.batch = c.batch, .seq = c.seq, .lmhead_chunk = c.lmhead_chunk};
    model::Trainer trainer(c.config, options, machine.allocator);
    randomize(trainer.parameters(), 11);
    const data::TokenBatch tokens = random_batch(c.config, c.batch, c.seq, 13);
    ReferenceModel reference = reference_of(c.config, trainer.parameters());
    const NamedTensors found = train(trainer, tokens, 1).gradients.at(0);
    BOOST_TEST(found.size() == reference.weights.size());

    std::mt19937 generator(17);
    std::normal_distribution<double> draw;
    for (const auto& [name, values] : found) {
      BOOST_TEST_CONTEXT(c.name << ", " << name) {
        const Matrix& shape = reference.weights.at(name);
        Matrix g(shape.rows(), shape.cols());
        for (Eigen::Index i = 0; i < g.size(); i++) g.data()[i] = values[static_cast<std::size_t>(i)];
        BOOST_REQUIRE(g.norm() > 0);

        // Along itself the gradient has its whole length. A part that is missing or doubled shows here.
        BOOST_TEST(slope(reference, name, g / g.norm(), tokens) == g.norm(), boost::test_tools::tolerance(3e-5));
        // Along random directions a gradient that is wrong anywhere differs, even where it is orthogonal to itself.
        for (int direction = 0; direction < (kSlowBuild ? 1 : 2); direction++) {
          Matrix u(g.rows(), g.cols());
          for (Eigen::Index i = 0; i < u.size(); i++) u.data()[i] = draw(generator);
          u /= u.norm();
          const double expected = slope(reference, name, u, tokens), slope_found = (g.array() * u.array()).sum();
          BOOST_TEST(std::abs(slope_found - expected) < 3e-5 * g.norm());
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
