// peak_test.cpp - the memory of a step. Peaks are a property of the schedule: the same to the byte in every run,
// however the streams are timed. The large models run in books-only mode, where the allocator sees every request of a
// real step and nothing is computed: qwen2.5-0.5b then takes milliseconds, and its peak is a GPU's peak.
#include "test/model/model_fixture.h"

namespace spillway::test {
namespace {

using memory::Category;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kSeq = kSlowBuild ? 8 : 40;  // of the steps that are computed
const std::vector<std::string> kStrategies = {"baseline", "checkpoint", "offload", "hybrid"};

std::int64_t of(const memory::CategoryBytes& bytes, Category c) {
  return bytes[static_cast<std::size_t>(c)];
}

// The stats of a step in the steady state: the second, with the optimizer's states in place.
memory::Stats steady_step(const model::Config& config, std::int64_t batch, std::int64_t seq,
                          const std::string& strategy, bool evaluate = false) {
  Machine machine;
  model::Trainer trainer(config, {.batch = batch, .seq = seq, .strategy = strategy}, machine.allocator);
  trainer.parameters().initialize(42);
  const data::TokenBatch tokens = random_batch(config, batch, seq, 42);
  trainer.step(tokens);
  machine.allocator.reset_peaks();
  if (evaluate)
    trainer.evaluate(tokens);
  else
    trainer.step(tokens);
  return machine.allocator.stats();
}

struct BooksOnly : HostDevice {
  BooksOnly() {
    hostcuda::set_device_memory(64ll << 30);
    hostcuda::set_books_only(true);
  }
  ~BooksOnly() { hostcuda::set_device_memory(memory_); }

 private:
  std::int64_t memory_ = hostcuda::device_memory();
};

double share(const model::Config& config, std::int64_t batch, std::int64_t seq, const std::string& strategy) {
  const auto activations = [&](const std::string& s) {
    return static_cast<double>(of(steady_step(config, batch, seq, s).max_by_category, Category::activation));
  };
  return activations(strategy) / activations("baseline");
}

BOOST_AUTO_TEST_SUITE(peaks)

BOOST_FIXTURE_TEST_CASE(repeated_and_delayed_runs_peak_at_the_same_byte, HostDevice) {
  const model::Config config = tied_config();
  for (const std::string& strategy : activation::strategy_names()) {
    const memory::Stats first = steady_step(config, 2, kSeq, strategy);
    for (std::uint64_t seed = 0; seed <= (kSlowBuild ? 1 : 2); seed++) {
      if (seed > 0) hostcuda::delay_stream(-1, std::chrono::microseconds(100), seed);
      const memory::Stats again = steady_step(config, 2, kSeq, strategy);
      hostcuda::reset_faults();
      BOOST_TEST(again.max_allocated == first.max_allocated, strategy);
      BOOST_TEST(again.max_reserved == first.max_reserved, strategy);
      BOOST_TEST(again.max_by_category == first.max_by_category, boost::test_tools::per_element());
      BOOST_TEST(again.at_peak == first.at_peak, boost::test_tools::per_element());
    }
  }
}

BOOST_FIXTURE_TEST_CASE(every_step_after_the_first_peaks_at_the_same_byte_and_leaves_the_same, HostDevice) {
  for (const std::string& strategy : activation::strategy_names()) {
    Machine machine;
    const model::Config config = tied_config();
    model::Trainer trainer(config, {.batch = 2, .seq = kSeq, .strategy = strategy}, machine.allocator);
    trainer.parameters().initialize(1);
    const data::TokenBatch tokens = random_batch(config, 2, kSeq, 2);
    trainer.step(tokens);
    trainer.step(tokens);
    const std::int64_t left = machine.allocator.stats().allocated;
    std::int64_t peak = 0;
    for (int step = 0; step < 3; step++) {
      machine.allocator.reset_peaks();
      trainer.step(tokens);
      if (step == 0) peak = machine.allocator.stats().max_allocated;
      BOOST_TEST(machine.allocator.stats().max_allocated == peak, strategy);
      BOOST_TEST(machine.allocator.stats().allocated == left, strategy);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(between_steps_only_parameters_states_and_the_trainers_tables_stay, HostDevice) {
  Machine machine;
  const model::Config config = tied_config();
  model::Trainer trainer(config, {.batch = 2, .seq = 16}, machine.allocator);
  trainer.parameters().initialize(1);
  const auto workspace = of(machine.allocator.stats().by_category, Category::workspace);
  trainer.step(random_batch(config, 2, 16, 2));
  const memory::CategoryBytes& live = machine.allocator.stats().by_category;
  BOOST_TEST(of(live, Category::gradient) == 0);
  BOOST_TEST(of(live, Category::activation) == 0);
  BOOST_TEST(of(live, Category::logits) == 0);
  BOOST_TEST(of(live, Category::offload_staging) == 0);
  BOOST_TEST(of(live, Category::workspace) == workspace);
  BOOST_TEST(of(live, Category::optimizer_state) == 2 * of(live, Category::parameter));
}

BOOST_FIXTURE_TEST_CASE(nothing_pinned_is_allocated_after_the_first_step, HostDevice) {
  for (const std::string& strategy : activation::strategy_names()) {
    Machine machine;
    const model::Config config = tied_config();
    model::Trainer trainer(config, {.batch = 1, .seq = 16, .strategy = strategy}, machine.allocator);
    trainer.parameters().initialize(1);
    const data::TokenBatch tokens = random_batch(config, 1, 16, 2);
    trainer.step(tokens);
    const std::uint64_t pinned = hostcuda::calls("cudaMallocHost");
    const std::uint64_t device = hostcuda::calls("cudaMalloc");
    trainer.step(tokens);
    trainer.evaluate(tokens);
    trainer.step(tokens);
    BOOST_TEST(hostcuda::calls("cudaMallocHost") == pinned, strategy);
    BOOST_TEST(hostcuda::calls("cudaMalloc") == device, strategy);
  }
}

BOOST_FIXTURE_TEST_CASE(qwen_trains_within_7800_mib_under_every_strategy, BooksOnly) {
  const model::Config qwen = model::preset("qwen2.5-0.5b");
  for (const std::string& strategy : kStrategies) {
    const memory::Stats stats = steady_step(qwen, 1, 768, strategy);
    BOOST_TEST_MESSAGE(strategy << ": peak " << static_cast<double>(stats.max_allocated) / kMiB << " MiB");
    BOOST_TEST(stats.max_allocated <= 7800 * kMiB, strategy << ": " << stats.max_allocated / kMiB << " MiB");
  }
}

BOOST_FIXTURE_TEST_CASE(qwens_first_step_fits_in_7800_mib_too, BooksOnly) {
  const model::Config qwen = model::preset("qwen2.5-0.5b");
  for (const std::string& strategy : kStrategies) {
    Machine machine;
    model::Trainer trainer(qwen, {.batch = 1, .seq = 768, .strategy = strategy}, machine.allocator);
    trainer.step(random_batch(qwen, 1, 768, 42));
    BOOST_TEST(machine.allocator.stats().max_allocated <= 7800 * kMiB, strategy);
  }
}

BOOST_FIXTURE_TEST_CASE(strategies_keep_their_share_of_the_baselines_activations, BooksOnly) {
  const model::Config small = model::preset("small"), qwen = model::preset("qwen2.5-0.5b");
  BOOST_TEST(share(small, 4, 2048, "checkpoint") <= 0.30);
  BOOST_TEST(share(small, 4, 2048, "hybrid") <= 0.30);
  BOOST_TEST(share(small, 4, 2048, "offload") <= 0.50);
  BOOST_TEST(share(qwen, 1, 768, "checkpoint") <= 0.12);
  BOOST_TEST(share(qwen, 1, 768, "hybrid") <= 0.12);
  BOOST_TEST(share(qwen, 1, 768, "offload") <= 0.16);
}

BOOST_FIXTURE_TEST_CASE(evaluation_holds_no_more_than_a_layer, BooksOnly) {
  const model::Config qwen = model::preset("qwen2.5-0.5b");
  const memory::Stats training = steady_step(qwen, 1, 768, "baseline"),
                      evaluation = steady_step(qwen, 1, 768, "baseline", true);
  BOOST_TEST(of(evaluation.max_by_category, Category::gradient) == 0);
  BOOST_TEST(of(evaluation.max_by_category, Category::activation) <=
             of(training.max_by_category, Category::activation) / qwen.layers);
}

BOOST_FIXTURE_TEST_CASE(books_only_peaks_are_the_peaks_of_real_steps, HostDevice) {
  const model::Config config = tied_config();
  for (const std::string& strategy : activation::strategy_names()) {
    const memory::Stats real = steady_step(config, 2, kSeq, strategy);
    hostcuda::set_books_only(true);
    const memory::Stats books = steady_step(config, 2, kSeq, strategy);
    hostcuda::set_books_only(false);
    BOOST_TEST(books.max_allocated == real.max_allocated, strategy);
    BOOST_TEST(books.max_reserved == real.max_reserved, strategy);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
