// strategies_test.cpp - a strategy may cost memory and time, never a bit of the result: losses, every gradient and
// every parameter are the same under all of them, over several steps, whatever the streams' timing and the number of
// threads. Freed device blocks and prefetched host slots are poisoned, so that whoever reads too late or too early
// reads NaN.
#include "model/saved_tensors.h"
#include "test/model/model_fixture.h"

namespace spillway::test {
namespace {

constexpr int kSteps = 3;

struct Workload {
  model::Config config;
  std::int64_t batch, seq, lmhead_chunk;
};

const Workload kTied{tied_config(), 2, kSlowBuild ? 5 : 17, kSlowBuild ? 4 : 9};
const Workload kUntied{untied_config(), 3, kSlowBuild ? 4 : 12, 0};

Run run_strategy(const Workload& w, const std::string& strategy) {
  Machine machine({.poison_freed = true});
  model::TrainerOptions options{.batch = w.batch, .seq = w.seq, .strategy = strategy, .lmhead_chunk = w.lmhead_chunk};
  options.adamw.lr = 1e-2f;
  options.store.poison_host_slots = true;
  model::Trainer trainer(w.config, options, machine.allocator);
  randomize(trainer.parameters(), 3);
  return train(trainer, random_batch(w.config, w.batch, w.seq, 4), kSteps);
}

BOOST_FIXTURE_TEST_SUITE(strategies, HostDevice)

BOOST_AUTO_TEST_CASE(every_strategy_gives_the_same_bits) {
  for (const Workload& w : {kTied, kUntied}) {
    const Run baseline = run_strategy(w, "baseline");
    BOOST_TEST(baseline.gradients.size() == kSteps);
    BOOST_TEST(baseline.losses.size() == kSteps + 1);
    BOOST_TEST(difference(baseline, baseline) == "");  // no NaN in it
    for (const std::string& strategy : activation::strategy_names())
      BOOST_TEST(difference(baseline, run_strategy(w, strategy)) == "", w.config.name << ", " << strategy);
  }
}

BOOST_AUTO_TEST_CASE(randomly_delayed_streams_give_the_same_bits) {
  const Run baseline = run_strategy(kTied, "baseline");
  for (std::uint64_t seed = 1; seed <= (kSlowBuild ? 1 : 3); seed++)
    for (const std::string& strategy : activation::strategy_names()) {
      hostcuda::delay_stream(-1, std::chrono::microseconds(150), seed);
      BOOST_TEST(difference(baseline, run_strategy(kTied, strategy)) == "", strategy << ", seed " << seed);
      hostcuda::reset_faults();
    }
}

BOOST_AUTO_TEST_CASE(a_slow_link_gives_the_same_bits) {
  const Run baseline = run_strategy(kTied, "baseline");
  for (const char* strategy : {"offload", "hybrid", "offload-pageable"}) {
    hostcuda::set_link_gbps(0.05);
    BOOST_TEST(difference(baseline, run_strategy(kTied, strategy)) == "", strategy);
    hostcuda::reset_faults();
  }
}

BOOST_AUTO_TEST_CASE(one_and_two_pool_threads_give_the_same_bits) {
  for (const Workload& w : {kTied, kUntied}) {
    hostcuda::set_pool_threads(1);
    const Run one = run_strategy(w, "baseline");
    hostcuda::set_pool_threads(2);
    for (const std::string& strategy : activation::strategy_names())
      BOOST_TEST(difference(one, run_strategy(w, strategy)) == "", w.config.name << ", " << strategy);
  }
}

BOOST_AUTO_TEST_CASE(a_plan_of_ones_own_gives_the_same_bits) {
  const Run baseline = run_strategy(kUntied, "baseline");
  const activation::LayerSpec spec = model::layer_spec(kUntied.config, kUntied.batch, kUntied.seq, sizeof(float));
  std::mt19937 generator(9);
  for (int trial = 0; trial < (kSlowBuild ? 3 : 8); trial++) {
    activation::Plan plan = activation::make_plan("baseline", spec, static_cast<int>(kUntied.config.layers));
    plan.name = "mixed";
    for (auto& layer : plan.placements)
      for (std::size_t t = 0; t < layer.size(); t++)
        layer[t] = static_cast<activation::Placement>(t == 0 ? generator() % 2 * 2 : generator() % 3);
    Machine machine({.poison_freed = true});
    model::TrainerOptions options{.batch = kUntied.batch, .seq = kUntied.seq, .plan = plan, .lmhead_chunk = 0};
    options.adamw.lr = 1e-2f;
    options.store.poison_host_slots = true;
    model::Trainer trainer(kUntied.config, options, machine.allocator);
    randomize(trainer.parameters(), 3);
    const Run run = train(trainer, random_batch(kUntied.config, kUntied.batch, kUntied.seq, 4), kSteps);
    BOOST_TEST(difference(baseline, run) == "", "trial " << trial);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
