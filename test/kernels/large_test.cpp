// large_test.cpp - offsets beyond 2^31 elements. The tensor takes 8.6 GB, so this runs only where SPILLWAY_LARGE=1 says
// that there is memory and time for it.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/fill.h"
#include "test/device_controls.h"
#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

BOOST_AUTO_TEST_SUITE(large)

BOOST_AUTO_TEST_CASE(offsets_beyond_two_to_the_31_elements_reach_the_last_row) {
  const char* asked = std::getenv("SPILLWAY_LARGE");
  if (!asked || std::strcmp(asked, "1") != 0) {
    BOOST_TEST_MESSAGE("skipped: SPILLWAY_LARGE=1 runs it");
    return;
  }
  const Index d = 4096, rows = (Index{1} << 31) / d + 3, n = rows * d;
  const std::int64_t memory = hostcuda::device_memory();
  hostcuda::set_device_memory(n * Index{sizeof(float)} + (64 << 20));
  {
    const Floats x(n), bias(Vector(d, 0.5f));
    const auto at = [&](Index i) {
      float value = 0;
      check(cudaMemcpyAsync(&value, x.get() + i, sizeof value, cudaMemcpyDeviceToHost, stream()));
      check(cudaStreamSynchronize(stream()));
      return value;
    };
    fill(x, 1, n, stream());
    bias_forward<float>(x, bias, rows, d, stream());
    BOOST_TEST(at(0) == 1.5f);
    BOOST_TEST(at(n - 1) == 1.5f);

    // As an embedding of `rows` words: the last one.
    const Ids last(std::vector<std::int32_t>(1, static_cast<std::int32_t>(rows - 1)));
    const Floats word(d);
    embedding_forward<float>(word, last, x, 1, d, stream());
    BOOST_TEST(word.download().back() == 1.5f);

    // As logits, all alike: the loss is ln(vocabulary), the gradient off the target one share of it.
    const Ids targets(std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0));
    const Floats losses(rows);
    cross_entropy_forward_backward<float>(losses, x, targets, rows, d, 1.f, stream());
    BOOST_TEST(losses.download().back() == std::log(4096.f), boost::test_tools::tolerance(1e-6f));
    BOOST_TEST(at(n - 1) == 1.f / 4096, boost::test_tools::tolerance(1e-5f));
  }
  hostcuda::set_device_memory(memory);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
