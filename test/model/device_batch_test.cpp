// device_batch_test.cpp - what the device is told about a step's tokens, against brute force.
#include "model/device_batch.h"

#include <algorithm>
#include <set>

#include "test/model/model_fixture.h"

namespace spillway::test {
namespace {

std::vector<std::int32_t> read(const std::int32_t* device, std::int64_t n) {
  std::vector<std::int32_t> host(static_cast<std::size_t>(n));
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(host.data(), device, host.size() * sizeof(std::int32_t), cudaMemcpyDeviceToHost));
  return host;
}

struct BatchFixture : HostDevice {
  Machine machine;
  Stream stream{"batch"};
  model::Execution run{machine.allocator, stream.get(), nullptr};
};

BOOST_FIXTURE_TEST_SUITE(device_batch, BatchFixture)

BOOST_AUTO_TEST_CASE(targets_are_the_next_tokens_of_the_row_and_none_for_its_last) {
  model::DeviceBatch batch(2, 4, 10, run);
  batch.upload({2, 4, {1, 2, 3, 4, 9, 0, 9, 5}});
  BOOST_TEST(read(batch.ids(), 8) == std::vector<std::int32_t>({1, 2, 3, 4, 9, 0, 9, 5}),
             boost::test_tools::per_element());
  BOOST_TEST(read(batch.targets(), 8) == std::vector<std::int32_t>({2, 3, 4, -1, 0, 9, 5, -1}),
             boost::test_tools::per_element());
  BOOST_TEST(batch.predicted() == 6);
}

BOOST_AUTO_TEST_CASE(every_position_stands_once_in_the_segment_of_its_token_in_order) {
  for (unsigned seed = 1; seed <= 20; seed++) {
    model::Config config = tied_config();
    config.vocab = 1 + seed * seed;
    model::DeviceBatch batch(3, 11, config.vocab, run);
    const data::TokenBatch tokens = random_batch(config, 3, 11, seed);
    batch.upload(tokens);
    const std::set<std::int32_t> distinct(tokens.ids.begin(), tokens.ids.end());
    BOOST_REQUIRE(batch.segments() == static_cast<std::int64_t>(distinct.size()));

    const auto order = read(batch.order(), 33), begin = read(batch.segment_begin(), batch.segments() + 1);
    BOOST_TEST(begin.front() == 0);
    BOOST_TEST(begin.back() == 33);
    std::size_t segment = 0;
    for (const std::int32_t token : distinct) {
      std::vector<std::int32_t> expected;
      for (std::int32_t i = 0; i < 33; i++)
        if (tokens.ids[static_cast<std::size_t>(i)] == token) expected.push_back(i);
      const std::vector<std::int32_t> found(order.begin() + begin[segment], order.begin() + begin[segment + 1]);
      BOOST_TEST(found == expected, boost::test_tools::per_element());
      segment++;
    }
  }
}

BOOST_AUTO_TEST_CASE(a_second_upload_does_not_disturb_what_the_first_one_gave_a_slow_stream) {
  model::DeviceBatch batch(1, 4, 10, run);
  Tensor<std::int32_t> first(machine.allocator, 4, memory::Category::workspace, stream.get(), "first batch");
  hostcuda::delay_stream(-1, std::chrono::milliseconds(2));
  batch.upload({1, 4, {1, 2, 3, 4}});
  check(cudaMemcpyAsync(first.data(), batch.ids(), static_cast<std::size_t>(first.bytes()), cudaMemcpyDeviceToDevice,
                        stream.get()));
  batch.upload({1, 4, {5, 6, 7, 8}});
  hostcuda::reset_faults();
  BOOST_TEST(read(first.data(), 4) == std::vector<std::int32_t>({1, 2, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(read(batch.ids(), 4) == std::vector<std::int32_t>({5, 6, 7, 8}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
