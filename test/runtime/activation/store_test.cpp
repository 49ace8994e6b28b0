// The store on a device with streams of its own: every plan computes what one plain loop computes, whatever the
// streams' speeds, with freed memory poisoned; peaks are the schedule's; faults planted in a schedule show.
#include "runtime/activation/store.h"

#include "runtime/activation/schedule_check.h"
#include "runtime/hostcuda/control.h"
#include "runtime/memory/caching_allocator.h"
#include "test/fixture.h"
#include "test/planted.h"
#include "test/runtime/activation/synthetic_layer.h"

using namespace spillway;
using namespace spillway::activation;
using namespace std::chrono_literals;
using test::Value;

namespace {

struct Device {
  memory::CudaDeviceMemory device;
  memory::CachingAllocator allocator{device, {0, true}};  // freed blocks poisoned
  Stream compute{"compute"};
  ~Device() { hostcuda::reset_faults(); }
};
const StoreOptions kPoisoned{true, true};

std::vector<Value> run_step(Device& d, Store& store, Value seed) {
  test::SyntheticOperators operators(store, d.allocator, d.compute.get(), seed);
  store.run(operators);
  return operators.result();
}

int trials(int usual) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return usual / 4;
#else
  return usual;
#endif
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(the_store, Device)

BOOST_AUTO_TEST_CASE(every_plan_computes_what_a_plain_loop_computes_at_any_speed_of_the_streams) {
  const LayerSpec spec = test::synthetic_spec();
  std::mt19937_64 random(5);
  for (int trial = 0; trial < trials(60); ++trial) {
    const int layers = 1 + static_cast<int>(random() % 5);
    const Plan plan = trial < 5 ? make_plan(strategy_names()[static_cast<std::size_t>(trial)], spec, layers)
                                : test::random_plan(random, spec, layers);
    Store store(spec, plan, allocator, compute.get(), kPoisoned);
    for (Value step = 1; step <= 3; ++step) {  // slots and memory are used again
      hostcuda::delay_stream(-1, 150us, random());
      const bool same = run_step(*this, store, step) == test::reference_result(spec, layers, step);
      hostcuda::reset_faults();
      BOOST_TEST_CONTEXT("trial " << trial << " plan " << plan.name) BOOST_REQUIRE(same);
    }
  }
  BOOST_TEST(allocator.stats().allocated == 0);
}

BOOST_AUTO_TEST_CASE(the_peak_is_the_schedules_to_the_byte_in_repeated_and_delayed_runs) {
  const LayerSpec spec = test::synthetic_spec();
  LayerSpec blocks = spec;  // sizes as the allocator rounds them
  for (SavedTensor& t : blocks.tensors) t.bytes = (t.bytes + 511) / 512 * 512;
  std::mt19937_64 random(6);
  for (int trial = 0; trial < trials(24); ++trial) {
    const Plan plan = test::random_plan(random, spec, 4);
    Store store(spec, plan, allocator, compute.get());
    std::int64_t expected = 0;
    for (int run = 0; run < 3; ++run) {
      if (run > 0) hostcuda::delay_stream(-1, 200us, random());
      allocator.reset_peaks();
      run_step(*this, store, 1);
      hostcuda::reset_faults();
      const std::int64_t peak =
          allocator.stats().max_by_category[static_cast<std::size_t>(memory::Category::activation)];
      if (run == 0) expected = check_schedule(training_schedule(plan, spec), blocks).peak_saved_bytes;
      BOOST_REQUIRE_EQUAL(peak, expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_host_memory_is_allocated_after_the_first_step) {
  const LayerSpec spec = test::synthetic_spec();
  Store store(spec, make_plan("offload", spec, 4), allocator, compute.get());
  run_step(*this, store, 1);
  const std::uint64_t before = hostcuda::calls("cudaMallocHost");
  for (Value step = 2; step < 6; ++step) run_step(*this, store, step);
  BOOST_TEST(hostcuda::calls("cudaMallocHost") == before);
  BOOST_TEST(store.pinned_host_bytes() > 0);
}

BOOST_AUTO_TEST_CASE(an_evaluation_gives_the_heads_input_and_saves_nothing) {
  const LayerSpec spec = test::synthetic_spec();
  Store store(spec, make_plan("baseline", spec, 4), allocator, compute.get());
  test::SyntheticOperators operators(store, allocator, compute.get(), 9);
  allocator.reset_peaks();
  store.evaluate(operators);
  // The head's input alone enters the result: the same as a step whose layers have no backward pass.
  LayerSpec forward_only = spec;
  forward_only.backward.clear();
  BOOST_TEST((operators.result() == test::reference_result(forward_only, 4, 9)));
  BOOST_TEST(allocator.stats().max_by_category[static_cast<std::size_t>(memory::Category::activation)] < 6 * 2048);
}

BOOST_AUTO_TEST_CASE(out_of_memory_at_any_allocation_gives_everything_back_and_the_next_step_runs) {
  const LayerSpec spec = test::synthetic_spec();
  for (const char* name : {"baseline", "hybrid", "offload"}) {
    // A device that hands out one 512-byte-rounded request a segment would be needed to fail each allocation; a
    // listener that throws at the k-th fails exactly those.
    Store store(spec, make_plan(name, spec, 3), allocator, compute.get(), kPoisoned);
    const std::int64_t live = allocator.stats().allocated;
    for (int k = 1;; ++k) {
      int allocations = 0;
      bool failed = false;
      {
        test::SyntheticOperators operators(store, allocator, compute.get(), 1);
        const auto listening = allocator.listen([&](const memory::MemoryEvent& e, const memory::Stats&) {
          if (e.kind == memory::MemoryEvent::Kind::allocate && ++allocations == k)
            throw memory::OutOfMemory("planted", e.bytes, 0, 0, 0);
        });
        try {
          store.run(operators);
        } catch (const memory::OutOfMemory&) {
          failed = true;
        }
      }
      BOOST_REQUIRE_EQUAL(allocator.stats().allocated, live);
      allocator.check_invariants();
      if (!failed) break;
      if (k % 5 == 0) BOOST_REQUIRE((run_step(*this, store, 2) == test::reference_result(spec, 3, 2)));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_tensor_that_the_schedule_does_not_hold_cannot_be_reached) {
  const LayerSpec spec = test::synthetic_spec();
  const Store store(spec, make_plan("baseline", spec, 2), allocator, compute.get());
  BOOST_CHECK_THROW(store.tensor(0, 0), std::logic_error);
  BOOST_CHECK_THROW(store.tensor(7, 0), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(what_a_step_moves_and_computes_again_is_counted) {
  const LayerSpec spec = test::synthetic_spec();
  const Plan plan = make_plan("hybrid", spec, 4);
  Store store(spec, plan, allocator, compute.get());
  hostcuda::set_link_gbps(0.001);  // a tensor of 1200 bytes takes 1.2 ms
  run_step(*this, store, 1);
  const StepCost cost = store.cost();
  BOOST_TEST(cost.offload_bytes == totals(plan, spec).offloaded_bytes);
  BOOST_TEST(cost.prefetch_bytes == cost.offload_bytes);
  BOOST_TEST(cost.recompute_flops == totals(plan, spec).recompute_flops);
  BOOST_TEST(cost.transfer_ms >= 6 * 1.2 * 0.99);  // three inputs, out and back
  BOOST_TEST(cost.exposed_transfer_ms > 0);
}

BOOST_AUTO_TEST_SUITE_END()

// ---- planted faults
// ----------------------------------------------------------------------------------------------------- In a plain
// build a stream made slow turns the fault into a wrong number; ThreadSanitizer reports the race itself.

BOOST_AUTO_TEST_SUITE(planted_faults)  // each makes a Device of its own, whose streams are numbers 0, 1 and 2

namespace {
// A schedule in which copies need not wait for what makes them safe.
Schedule without_waits(const LayerSpec& spec, const Plan& plan, Action::Kind kind) {
  Schedule schedule = training_schedule(plan, spec);
  for (Action& a : schedule.actions)
    if (a.kind == kind) a.waits.clear();
  return schedule;
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_missing_stream_wait_before_a_copy_out_is_caught) {
  const LayerSpec spec = test::synthetic_spec();
  const Plan plan = make_plan("offload", spec, 3);
  test::expect_caught([&] {
    Device d;
    Store store(spec, plan, without_waits(spec, plan, Action::Kind::offload), d.allocator, d.compute.get(), kPoisoned);
    hostcuda::delay_stream(0, 3ms);  // compute writes late, the copy out runs ahead
    return run_step(d, store, 1) == test::reference_result(spec, 3, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_prefetch_that_does_not_wait_for_its_copy_out_is_caught) {
  const LayerSpec spec = test::synthetic_spec();
  const Plan plan = make_plan("offload", spec, 3);
  test::expect_caught([&] {
    Device d;
    Schedule schedule = training_schedule(plan, spec);
    for (Action& a : schedule.actions) {
      if (a.kind == Action::Kind::release) a.waits.clear();
      if (a.kind == Action::Kind::prefetch) a.waits.erase(a.waits.begin());
    }
    Store store(spec, plan, std::move(schedule), d.allocator, d.compute.get(), kPoisoned);
    hostcuda::delay_stream(1, 20ms);  // copies out are slow
    return run_step(d, store, 1) == test::reference_result(spec, 3, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_consumer_that_does_not_wait_for_its_prefetch_is_caught) {
  const LayerSpec spec = test::synthetic_spec();
  const Plan plan = make_plan("offload", spec, 3);
  test::expect_caught([&] {
    Device d;
    Store store(spec, plan, without_waits(spec, plan, Action::Kind::backward), d.allocator, d.compute.get(), kPoisoned);
    hostcuda::delay_stream(2, 20ms);  // copies in are slow
    return run_step(d, store, 1) == test::reference_result(spec, 3, 1);
  });
}

BOOST_AUTO_TEST_SUITE_END()
