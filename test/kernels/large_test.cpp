// large_test.cpp - offsets beyond 2^31 elements. The tensor takes 8.6 GB, so this runs only where SPILLWAY_LARGE=1 says
// that there is memory and time for it.
#include <cstdlib>
#include <cstring>

#include "kernels/bias.h"
#include "kernels/fill.h"
#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#ifdef SPILLWAY_HOST
#include "runtime/hostcuda/control.h"
#endif

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
#ifdef SPILLWAY_HOST
  hostcuda::set_device_memory(n * Index{sizeof(float)} + (1 << 20));
#endif
  const Floats x(n), bias(Vector(d, 0.5f));
  fill(x, 1, n, stream());
  bias_forward<float>(x, bias, rows, d, stream());
  Vector ends(2);
  check(cudaMemcpyAsync(&ends[0], x.get(), sizeof(float), cudaMemcpyDeviceToHost, stream()));
  check(cudaMemcpyAsync(&ends[1], x.get() + n - 1, sizeof(float), cudaMemcpyDeviceToHost, stream()));
  check(cudaStreamSynchronize(stream()));
  BOOST_TEST(ends[0] == 1.5f);
  BOOST_TEST(ends[1] == 1.5f);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
