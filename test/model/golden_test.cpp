// golden_test.cpp - the model against PyTorch in float64, on the weights of test/fixtures/tiny_qwen2: logits, losses,
// every gradient and every stepped parameter, under every strategy.
#include <sstream>

#include "model/verify.h"
#include "test/model/model_fixture.h"

namespace spillway::test {
namespace {

const auto kFolder = fixtures() / "tiny_qwen2";
const auto kGolden = fixtures() / "tiny_qwen2" / "golden.safetensors";

BOOST_FIXTURE_TEST_SUITE(golden, HostDevice)

// Elsewhere the strategies are shown to give the same bits, so that two of them will do where everything is slow.
const std::vector<std::string> kStrategies =
    kSlowBuild ? std::vector<std::string>{"baseline", "hybrid"} : activation::strategy_names();

BOOST_AUTO_TEST_CASE(every_strategy_reproduces_the_golden_numbers) {
  for (const std::string& strategy : kStrategies) {
    Machine machine;
    std::ostringstream report;
    model::VerifyOptions options;
    options.strategy = strategy;
    BOOST_TEST(model::verify(kFolder, kGolden, options, machine.allocator, report), strategy << "\n" << report.str());
  }
}

BOOST_AUTO_TEST_CASE(chunked_logits_reproduce_the_golden_numbers) {
  for (const std::int64_t chunk : kSlowBuild ? std::vector<std::int64_t>{17} : std::vector<std::int64_t>{0, 1, 17}) {
    Machine machine;
    std::ostringstream report;
    model::VerifyOptions options;
    options.lmhead_chunk = chunk;
    BOOST_TEST(model::verify(kFolder, kGolden, options, machine.allocator, report), chunk << "\n" << report.str());
  }
}

BOOST_AUTO_TEST_CASE(the_report_names_every_gradient_and_every_stepped_parameter) {
  Machine machine;
  std::ostringstream report;
  model::verify(kFolder, kGolden, {}, machine.allocator, report);
  const std::string text = report.str();
  const auto golden = model::Safetensors::open_file(kGolden);
  for (const auto& [name, tensor] : golden.tensors())
    if (name.starts_with("grad.") || name.starts_with("after3."))
      BOOST_TEST(text.find(name + " ") != std::string::npos, name);
}

BOOST_AUTO_TEST_CASE(a_tolerance_that_is_not_met_is_a_failure, *boost::unit_test::enable_if<!kSlowBuild>()) {
  Machine machine;
  std::ostringstream report;
  model::VerifyOptions options;
  options.tensor_tolerance = 1e-12;
  BOOST_TEST(!model::verify(kFolder, kGolden, options, machine.allocator, report));
  BOOST_TEST(report.str().find("FAIL") != std::string::npos);
  BOOST_TEST(report.str().find("NOT verified") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_without_golden_numbers_is_an_error_that_names_the_tensor) {
  Machine machine;
  std::ostringstream report;
  BOOST_CHECK_EXCEPTION(model::verify(kFolder, kFolder / "model.safetensors", {}, machine.allocator, report), Error,
                        [](const Error& e) { return std::string(e.what()).find("tokens") != std::string::npos; });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
