// What the named plans are, what a plan costs by arithmetic, and what is refused.
#include "runtime/activation/plan.h"

#include "runtime/error.h"
#include "test/fixture.h"
#include "test/runtime/activation/synthetic_layer.h"

using namespace spillway;
using namespace spillway::activation;

BOOST_AUTO_TEST_SUITE(plans)

BOOST_AUTO_TEST_CASE(the_named_plans_place_what_their_names_say) {
  const LayerSpec spec = test::synthetic_spec();
  for (const std::string& name : strategy_names()) {
    const Plan plan = make_plan(name, spec, 4);
    for (int l = 0; l < 4; ++l)
      for (int t = 0; t < 6; ++t) {
        const bool input = t == 0, last = l == 3;
        Placement expected = Placement::keep;
        if (name == "checkpoint" && !input) expected = Placement::recompute;
        if (name.starts_with("offload") && !last) expected = Placement::offload;
        if (name == "hybrid") expected = !input ? Placement::recompute : last ? Placement::keep : Placement::offload;
        BOOST_TEST_CONTEXT(name << " layer " << l << " tensor " << t) BOOST_TEST((plan.at(l, t) == expected));
      }
    BOOST_TEST(
        (plan.host_memory == (name == "offload-pageable" ? memory::HostMemory::pageable : memory::HostMemory::pinned)));
  }
}

BOOST_AUTO_TEST_CASE(recomputation_goes_back_through_everything_that_was_dropped) {
  const LayerSpec spec = test::synthetic_spec();
  Plan plan = make_plan("baseline", spec, 1);
  plan.placements[0][4] = Placement::recompute;  // d needs c and x, which are kept
  BOOST_TEST((recomputed_operators(plan, spec, 0) == std::vector<int>{2}));
  plan.placements[0][3] = Placement::recompute;  // c needs a and b
  BOOST_TEST((recomputed_operators(plan, spec, 0) == std::vector<int>{1, 2}));
  plan.placements[0][1] = Placement::recompute;
  BOOST_TEST((recomputed_operators(plan, spec, 0) == std::vector<int>{0, 1, 2}));
  plan.placements[0][5] = Placement::recompute;  // e: nobody reads it again
  BOOST_TEST((recomputed_operators(plan, spec, 0) == std::vector<int>{0, 1, 2}));
  BOOST_TEST(totals(plan, spec).recompute_flops == 60);
}

BOOST_AUTO_TEST_CASE(an_unknown_strategy_is_refused_with_the_names_there_are) {
  try {
    make_plan("swap", test::synthetic_spec(), 2);
    BOOST_ERROR("not refused");
  } catch (const Error& e) {
    BOOST_TEST(std::string(e.what()) ==
               "unknown strategy 'swap': choose from baseline, checkpoint, offload, hybrid, offload-pageable");
  }
}

BOOST_AUTO_TEST_CASE(a_plan_that_does_not_fit_its_layer_is_refused) {
  const LayerSpec spec = test::synthetic_spec();
  Plan plan = make_plan("baseline", spec, 2);
  plan.placements[1].pop_back();
  BOOST_CHECK_THROW(plan.validate(spec), Error);
  plan = make_plan("baseline", spec, 2);
  plan.placements[1][0] = Placement::recompute;
  BOOST_CHECK_THROW(plan.validate(spec), Error);
  plan = make_plan("baseline", spec, 2);
  plan.window = 1;
  BOOST_CHECK_THROW(plan.validate(spec), Error);
  BOOST_CHECK_THROW(Plan{}.validate(spec), Error);
}

BOOST_AUTO_TEST_CASE(a_layer_that_is_not_sound_is_refused) {
  LayerSpec spec = test::synthetic_spec();
  spec.forward[1].reads = {4};  // before it is written
  BOOST_CHECK_THROW(spec.validate(), Error);
  spec = test::synthetic_spec();
  spec.forward[1].writes = {1};  // a second time
  BOOST_CHECK_THROW(spec.validate(), Error);
  spec = test::synthetic_spec();
  spec.forward[4].writes_next_input = false;
  BOOST_CHECK_THROW(spec.validate(), Error);
  spec = test::synthetic_spec();
  spec.backward[0].reads = {17};
  BOOST_CHECK_THROW(spec.validate(), Error);
}

BOOST_AUTO_TEST_SUITE_END()
