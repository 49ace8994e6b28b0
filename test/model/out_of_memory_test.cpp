// out_of_memory_test.cpp - running out of device memory is a measured outcome. Wherever in a step it happens, it is
// reported as OutOfMemory, everything the step had allocated is back, and training goes on: with the next strategy, or
// with the same trainer, to the same bits as if nothing had happened.
#include "test/model/model_fixture.h"

namespace spillway::test {
namespace {

// A device on which the k-th segment from now, and every one after it, is refused: so is the allocator's retry.
class LimitedMemory final : public memory::DeviceMemory {
 public:
  void* allocate(std::int64_t bytes) override {
    calls_++;
    return refuse_from_ > 0 && calls_ >= refuse_from_ ? nullptr : device_.allocate(bytes);
  }
  void release(void* segment, std::int64_t bytes) noexcept override { device_.release(segment, bytes); }
  void synchronize() override { device_.synchronize(); }
  Info info() const override { return device_.info(); }

  void refuse_from(int k) { refuse_from_ = k, calls_ = 0; }
  void serve() { refuse_from_ = 0; }
  int calls() const { return calls_; }

 private:
  memory::CudaDeviceMemory device_;
  int refuse_from_ = 0, calls_ = 0;
};

// Wide enough that a step needs several segments.
model::Config wide_config() {
  model::Config c = tied_config();
  c.vocab = 4000, c.d = 64, c.ffn = 512, c.layers = 2;
  return c;
}
constexpr std::int64_t kBatch = kSlowBuild ? 1 : 4, kSeq = kSlowBuild ? 16 : 64;

struct Limited : HostDevice {
  LimitedMemory device;
  memory::CachingAllocator allocator{device};
  model::Config config = wide_config();
  data::TokenBatch tokens = random_batch(config, kBatch, kSeq, 1);

  model::TrainerOptions options(const std::string& strategy) const {
    return {.batch = kBatch, .seq = kSeq, .strategy = strategy};
  }
};

BOOST_AUTO_TEST_SUITE(out_of_memory)

BOOST_FIXTURE_TEST_CASE(whichever_allocation_of_a_step_fails_all_memory_returns_and_training_goes_on, Limited) {
  for (const std::string& strategy : activation::strategy_names()) {
    model::Trainer undisturbed(config, options(strategy), allocator);
    undisturbed.parameters().initialize(1);
    const float loss = undisturbed.step(tokens).loss;

    int failures = 0;
    for (int k = 1;; k++) {
      allocator.release_cached();
      const std::int64_t before_trainer = allocator.stats().allocated;
      {
        model::Trainer trainer(config, options(strategy), allocator);
        trainer.parameters().initialize(1);
        allocator.release_cached();
        const memory::CategoryBytes before = allocator.stats().by_category;

        device.refuse_from(k);
        bool failed = false;
        try {
          trainer.step(tokens);
        } catch (const memory::OutOfMemory& e) {
          failed = true;
          BOOST_TEST(std::string(e.what()).find('\n') == std::string::npos);
        }
        device.serve();
        if (!failed) {
          BOOST_TEST(device.calls() < k);  // the step needs k - 1 segments: every one of them has failed once
          break;
        }
        failures++;
        BOOST_TEST_CONTEXT(strategy << ", allocation " << k) {
          BOOST_TEST(allocator.stats().by_category == before, boost::test_tools::per_element());
          allocator.check_invariants();
          BOOST_TEST(trainer.steps() == 0);
          BOOST_TEST(trainer.step(tokens).loss == loss);
        }
      }
      BOOST_TEST(allocator.stats().allocated == before_trainer);
    }
    BOOST_TEST(failures >= 2, strategy);
  }
}

BOOST_FIXTURE_TEST_CASE(one_cuda_malloc_that_fails_is_retried, Limited, *boost::unit_test::enable_if<kHostDevice>()) {
  model::Trainer trainer(config, options("baseline"), allocator);
  trainer.parameters().initialize(1);
  hostcuda::fail_call("cudaMalloc", 1, cudaErrorMemoryAllocation);
  BOOST_CHECK_NO_THROW(trainer.step(tokens));
  BOOST_TEST(allocator.stats().retries == 1);
  BOOST_TEST(allocator.stats().ooms == 0);
}

BOOST_FIXTURE_TEST_CASE(a_device_too_small_for_baseline_trains_with_checkpoint, HostDevice,
                        *boost::unit_test::enable_if<!kSlowBuild>()) {
  model::Config config = wide_config();
  config.layers = 12;
  const data::TokenBatch tokens = random_batch(config, kBatch, kSeq, 1);
  const auto step = [&](const std::string& strategy, std::int64_t cap) {
    Machine machine({.cap_bytes = cap});
    model::Trainer trainer(config, {.batch = kBatch, .seq = kSeq, .strategy = strategy}, machine.allocator);
    trainer.parameters().initialize(1);
    trainer.step(tokens);
    return machine.allocator.stats().max_reserved;
  };
  const std::int64_t cap = step("checkpoint", 0);
  BOOST_REQUIRE(cap < step("baseline", 0));
  BOOST_CHECK_EXCEPTION(step("baseline", cap), memory::OutOfMemory,
                        [&](const memory::OutOfMemory& e) { return e.cap == cap && e.requested > 0; });
  BOOST_CHECK_NO_THROW(step("checkpoint", cap));
}

BOOST_FIXTURE_TEST_CASE(running_out_during_evaluation_leaves_the_trainer_as_it_was, Limited) {
  model::Trainer trainer(config, options("hybrid"), allocator);
  trainer.parameters().initialize(1);
  const float loss = trainer.evaluate(tokens);
  allocator.release_cached();
  const memory::CategoryBytes before = allocator.stats().by_category;
  device.refuse_from(1);
  BOOST_CHECK_THROW(trainer.evaluate(tokens), memory::OutOfMemory);
  device.serve();
  BOOST_TEST(allocator.stats().by_category == before, boost::test_tools::per_element());
  BOOST_TEST(trainer.evaluate(tokens) == loss);
}

BOOST_FIXTURE_TEST_CASE(an_exception_from_the_hook_is_unwound_like_any_other, Limited) {
  model::Trainer trainer(config, options("offload"), allocator);
  trainer.parameters().initialize(1);
  const memory::CategoryBytes before = allocator.stats().by_category;
  trainer.set_before_update([](model::Parameters&) { throw Error("stop"); });
  BOOST_CHECK_THROW(trainer.step(tokens), Error);
  BOOST_TEST(allocator.stats().by_category == before, boost::test_tools::per_element());
  trainer.set_before_update(nullptr);
  BOOST_CHECK_NO_THROW(trainer.step(tokens));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
