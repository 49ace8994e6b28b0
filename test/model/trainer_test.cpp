// trainer_test.cpp - what a person sees of training: the loss falls, evaluation changes nothing, chunks of logits are
// equal to rounding, and what cannot be trained is refused in one line.
#include "test/model/model_fixture.h"

namespace spillway::test {
namespace {

struct TrainerFixture : HostDevice {
  Machine machine;

  Run run_chunked(const model::Config& config, std::int64_t chunk) {
    model::Trainer trainer(config, {.batch = 2, .seq = 15, .lmhead_chunk = chunk}, machine.allocator);
    randomize(trainer.parameters(), 3);
    return train(trainer, random_batch(config, 2, 15, 4), 1);
  }

  void refuses(const model::Config& config, const model::TrainerOptions& options, const std::string& says) {
    BOOST_CHECK_EXCEPTION(model::Trainer(config, options, machine.allocator), Error, [&](const Error& e) {
      const std::string message = e.what();
      BOOST_TEST(message.find('\n') == std::string::npos);
      BOOST_TEST(message.find(says) != std::string::npos, message);
      return true;
    });
    BOOST_TEST(machine.allocator.stats().allocated == 0);
  }
};

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); i++) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(difference / norm);
}

BOOST_FIXTURE_TEST_SUITE(trainer, TrainerFixture)

BOOST_AUTO_TEST_CASE(sixty_steps_on_repetitive_text_bring_the_loss_down, *boost::unit_test::enable_if<!kSlowBuild>()) {
  const std::string text = "the cat sat on the mat and the dog sat on the log; ";
  model::Config config = tied_config();
  config.vocab = 128;
  constexpr std::int64_t kBatch = 2, kSeq = 48;
  model::TrainerOptions options{.batch = kBatch, .seq = kSeq, .strategy = "hybrid"};
  options.adamw.lr = 3e-3f;
  model::Trainer trainer(config, options, machine.allocator);
  trainer.parameters().initialize(42);

  std::vector<float> losses;
  for (std::size_t step = 0; step < 60; step++) {
    data::TokenBatch tokens{kBatch, kSeq, {}};
    for (std::size_t i = 0; i < kBatch * kSeq; i++) tokens.ids.push_back(text[(step * 7 + i) % text.size()]);
    losses.push_back(trainer.step(tokens).loss);
  }
  BOOST_TEST(trainer.steps() == 60);
  BOOST_TEST(losses.front() == std::log(128.f), boost::test_tools::tolerance(0.05f));  // knows nothing: uniform
  BOOST_TEST(losses.back() < 0.5f * losses.front());
  BOOST_TEST_MESSAGE("loss " << losses.front() << " -> " << losses.back());
}

BOOST_AUTO_TEST_CASE(evaluation_is_the_training_loss_and_changes_nothing) {
  const model::Config config = untied_config();
  model::Trainer trainer(config, {.batch = 2, .seq = 9}, machine.allocator);
  randomize(trainer.parameters(), 1);
  const data::TokenBatch tokens = random_batch(config, 2, 9, 2), others = random_batch(config, 2, 9, 3);
  const NamedTensors before = parameter_values(trainer.parameters());
  const float loss = trainer.evaluate(tokens);
  BOOST_TEST(trainer.evaluate(others) != loss);
  BOOST_TEST((parameter_values(trainer.parameters()) == before));
  BOOST_TEST(trainer.steps() == 0);
  BOOST_TEST(trainer.step(tokens).loss == loss);
}

BOOST_AUTO_TEST_CASE(a_step_reports_its_time_and_what_its_plan_moved) {
  const model::Config config = tied_config();
  const data::TokenBatch tokens = random_batch(config, 1, 16, 2);
  const auto step = [&](const std::string& strategy) {
    model::Trainer trainer(config, {.batch = 1, .seq = 16, .strategy = strategy}, machine.allocator);
    trainer.parameters().initialize(1);
    return trainer.step(tokens);
  };
  BOOST_TEST(step("baseline").step_ms > 0);
  BOOST_TEST(step("baseline").cost.offload_bytes == 0);
  BOOST_TEST(step("baseline").cost.recompute_flops == 0);
  BOOST_TEST(step("checkpoint").cost.recompute_flops > 0);
  BOOST_TEST(step("offload").cost.offload_bytes > 0);
  BOOST_TEST(step("offload").cost.prefetch_bytes == step("offload").cost.offload_bytes);
}

BOOST_AUTO_TEST_CASE(chunks_of_logits_are_equal_to_rounding) {
  for (const model::Config& config : {tied_config(), untied_config()}) {
    const Run whole = run_chunked(config, 0);
    for (const std::int64_t chunk : {1, 4, 7, 15, 16, 29, 30, 1000}) {
      if (kSlowBuild && chunk != 7) continue;
      const Run chunked = run_chunked(config, chunk);
      BOOST_TEST(chunked.losses[0] == whole.losses[0], boost::test_tools::tolerance(1e-6f));
      for (const auto& [name, gradient] : whole.gradients[0])
        BOOST_TEST(relative_difference(gradient, chunked.gradients[0].at(name)) < 2e-6, name << ", chunk " << chunk);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_default_chunk_fills_160_mib_in_multiples_of_64) {
  hostcuda::set_books_only(true);
  const auto chunk = [&](const model::Config& config, std::int64_t batch, std::int64_t seq, std::int64_t asked) {
    return model::Trainer(config, {.batch = batch, .seq = seq, .lmhead_chunk = asked}, machine.allocator)
        .lmhead_chunk();
  };
  model::Config qwen = model::preset("qwen2.5-0.5b"), huge = tied_config();
  qwen.layers = 1;
  huge.vocab = 2'000'000;
  BOOST_TEST(chunk(qwen, 1, 768, -1) == 256);  // 160 MiB / (151936 * 4 B) = 276 rows
  BOOST_TEST(chunk(model::preset("small"), 1, 768, -1) == 768);
  BOOST_TEST(chunk(huge, 2, 64, -1) == 64);
  BOOST_TEST(chunk(tied_config(), 2, 15, 0) == 30);
  BOOST_TEST(chunk(tied_config(), 2, 15, 7) == 7);
  BOOST_TEST(chunk(tied_config(), 2, 15, 31) == 30);
}

BOOST_AUTO_TEST_CASE(a_shape_that_cannot_be_trained_is_refused_in_one_line) {
  const model::Config config = tied_config();
  refuses(config, {.batch = 1, .seq = 0}, "seq 0");
  refuses(config, {.batch = 1, .seq = 1}, "at least 2");
  refuses(config, {.batch = 1, .seq = 65}, "64 positions");
  refuses(config, {.batch = 0, .seq = 8}, "batch 0");
  refuses(config, {.batch = 1ll << 60, .seq = 64}, "batch");
  refuses(config, {.batch = 1ll << 40, .seq = 64}, "batch");
  refuses(config, {.batch = 1, .seq = 8, .lmhead_chunk = -2}, "lmhead-chunk -2");
  refuses(config, {.batch = 1, .seq = 8, .strategy = "checkpont"}, "checkpont");
  model::Config ragged = config;
  ragged.kv_heads = 3;
  refuses(ragged, {.batch = 1, .seq = 8}, "kv");
}

BOOST_AUTO_TEST_CASE(a_token_outside_the_vocabulary_is_named_with_its_position) {
  const model::Config config = tied_config();
  model::Trainer trainer(config, {.batch = 2, .seq = 8}, machine.allocator);
  trainer.parameters().initialize(1);
  for (const std::int32_t bad : {83, -1}) {
    data::TokenBatch tokens = random_batch(config, 2, 8, 2);
    tokens.ids[11] = bad;
    BOOST_CHECK_EXCEPTION(trainer.step(tokens), Error, [&](const Error& e) {
      const std::string m = e.what();
      return m.find("row 1, position 3") != std::string::npos && m.find("id " + std::to_string(bad)) != m.npos;
    });
  }
  BOOST_CHECK_THROW(trainer.step(random_batch(config, 1, 8, 2)), Error);  // another shape
  BOOST_CHECK_NO_THROW(trainer.step(random_batch(config, 2, 8, 2)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
