// Operators: calls, time, declared work and rates of hand-made profiles.
#include <algorithm>
#include <numeric>

#include "profiler/analysis.h"
#include "test/fixture.h"
#include "test/profiler/profiles.h"

using namespace spillway::test;

namespace {

const Operator& named(const std::vector<Operator>& operators, const std::string& name) {
  const auto found =
      std::find_if(operators.begin(), operators.end(), [&](const Operator& op) { return op.name == name; });
  BOOST_REQUIRE_MESSAGE(found != operators.end(), name);
  return *found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(operators)

BOOST_AUTO_TEST_CASE(an_operator_is_what_launches_declared_with_its_rates) {
  Builder b;
  b.step(0, 10'000'000);
  b.declared("matmul", 0, 2'000'000, 6'000'000'000, 40'000'000);
  b.declared("matmul", 2'000'000, 4'000'000, 2'000'000'000, 20'000'000);
  b.declared("copy_heads", 4'000'000, 5'000'000, 0, 9'000'000);
  b.work(Work::kernel, 5'000'000, 8'000'000, 0, 7, "ampere_sgemm<float>");
  b.work(Work::host_to_device, 0, 10'000'000);
  b.work(Work::memset, 0, 10'000'000);
  const auto operators = analyze(b.profile).operators;
  BOOST_REQUIRE(operators.size() == 3U);
  BOOST_TEST(operators[0].name == "matmul");
  BOOST_TEST(operators[1].name == "ampere_sgemm<float>");
  const Operator& matmul = named(operators, "matmul");
  BOOST_TEST(matmul.calls == 2);
  BOOST_TEST(matmul.total_ms == 4);
  BOOST_TEST(matmul.share == 0.5);
  BOOST_TEST(matmul.flops == 8'000'000'000);
  BOOST_TEST(matmul.bytes == 60'000'000);
  BOOST_TEST(matmul.achieved_tflops.value() == 2.0);  // 8 GFLOP in 4 ms
  BOOST_TEST(matmul.achieved_gbs.value() == 15.0);    // 60 MB in 4 ms
  const Operator& copy = named(operators, "copy_heads");
  BOOST_TEST(!copy.achieved_tflops.has_value());
  BOOST_TEST(copy.achieved_gbs.value() == 9.0);
  const Operator& library = named(operators, "ampere_sgemm<float>");
  BOOST_TEST(library.flops == 0);
  BOOST_TEST(!library.achieved_tflops.has_value());
  BOOST_TEST(!library.achieved_gbs.has_value());
}

BOOST_AUTO_TEST_CASE(kernels_that_share_a_declaration_do_its_work_once) {
  Builder b;
  b.step(0, 10'000'000);
  const auto work = b.declared("matmul", 0, 1'000'000, 3'000'000'000, 10).work;
  b.work(Work::kernel, 1'000'000, 3'000'000, 0, 7, "splitk_reduce").work = work;
  const auto operators = analyze(b.profile).operators;
  BOOST_REQUIRE(operators.size() == 1U);
  BOOST_TEST(operators[0].calls == 1);
  BOOST_TEST(operators[0].total_ms == 3);
  BOOST_TEST(operators[0].achieved_tflops.value() == 1.0);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_is_called_like_a_declaration_does_not_slow_its_rate) {
  Builder b;
  b.step(0, 10'000'000);
  b.declared("kernel", 0, 1'000'000, 1'000'000'000, 0);
  b.kernel(1'000'000, 9'000'000);
  const auto operators = analyze(b.profile).operators;
  BOOST_REQUIRE(operators.size() == 2U);
  BOOST_TEST(!operators[0].achieved_tflops.has_value());
  BOOST_TEST(operators[1].achieved_tflops.value() == 1.0);
}

BOOST_AUTO_TEST_CASE(only_kernels_of_the_steps_count_and_shares_sum_to_one) {
  Builder b;
  b.step(100, 200).step(300, 400);
  b.kernel(0, 90);
  b.declared("warm up", 99, 150, 1, 1);
  b.declared("first", 100, 150, 1, 1);
  b.declared("second", 399, 500, 1, 1);
  b.declared("instant", 320, 320, 1, 1);
  b.kernel(200, 210);
  b.kernel(400, 500);
  const auto operators = analyze(b.profile).operators;
  BOOST_REQUIRE(operators.size() == 3U);
  BOOST_TEST(operators[0].name == "second");
  BOOST_TEST(operators[1].name == "first");
  BOOST_TEST(operators[2].name == "instant");
  BOOST_TEST(!operators[2].achieved_tflops.has_value());
  BOOST_TEST(std::accumulate(operators.begin(), operators.end(), 0.0,
                             [](double sum, const Operator& op) { return sum + op.share; }) == 1,
             boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_step_without_kernels_has_no_operators) {
  Builder b;
  b.step(0, 10);
  b.work(Work::device_to_host, 0, 10);
  BOOST_TEST(analyze(b.profile).operators.empty());
}

BOOST_AUTO_TEST_SUITE_END()
