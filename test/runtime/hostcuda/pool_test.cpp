// The pool runs every index once, whatever its size, and its size changes no result.
#include "runtime/hostcuda/pool.h"

#include <algorithm>
#include <stdexcept>

#include "test/runtime/hostcuda/device_fixture.h"

using namespace spillway;

namespace {
struct Threads {
  ~Threads() { hostcuda::set_pool_threads(before); }
  int before = hostcuda::pool_threads();
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool, Threads)

BOOST_AUTO_TEST_CASE(every_index_runs_once_for_any_number_of_threads) {
  for (const int threads : {1, 2, 3, 5}) {
    hostcuda::set_pool_threads(threads);
    BOOST_TEST(hostcuda::pool_threads() == threads);
    for (const std::size_t chunk : {1, 7, 1000}) {
      std::vector<int> runs(1234, 0);
      hostcuda::parallel_for(runs.size(), chunk, [&](std::size_t i) { ++runs[i]; });
      BOOST_TEST(std::count(runs.begin(), runs.end(), 1) == 1234);
    }
  }
}

BOOST_AUTO_TEST_CASE(many_small_jobs_in_a_row_lose_no_index) {
  hostcuda::set_pool_threads(4);
  std::vector<int> runs(9, 0);
  for (int job = 0; job < 3000; ++job) hostcuda::parallel_for(runs.size(), 2, [&](std::size_t i) { ++runs[i]; });
  BOOST_TEST(std::count(runs.begin(), runs.end(), 3000) == 9);
}

BOOST_AUTO_TEST_CASE(two_streams_that_launch_at_the_same_time_both_get_through) {
  hostcuda::set_pool_threads(3);
  const Stream a("a"), b("b");
  std::vector<int> runs_a(50, 0), runs_b(50, 0);
  for (int job = 0; job < 100; ++job) {
    test::run_on(a, [&] { hostcuda::parallel_for(50, 1, [&](std::size_t i) { ++runs_a[i]; }); });
    test::run_on(b, [&] { hostcuda::parallel_for(50, 1, [&](std::size_t i) { ++runs_b[i]; }); });
  }
  check(cudaDeviceSynchronize());
  BOOST_TEST(std::count(runs_a.begin(), runs_a.end(), 100) == 50);
  BOOST_TEST(std::count(runs_b.begin(), runs_b.end(), 100) == 50);
}

BOOST_AUTO_TEST_CASE(the_workers_take_part_and_flush_denormals_as_a_stream_does) {
  hostcuda::set_pool_threads(2);
  const Stream s("s");
  std::atomic<int> inside{0};
  std::atomic<bool> all_flush{true};
  test::run_on(s, [&] {
    hostcuda::parallel_for(2, 1, [&](std::size_t) {
      ++inside;
      while (inside < 2) std::this_thread::yield();  // one thread alone would never get out
      volatile float small = 1e-38f, less = small * 0.1f;
      if (less != 0.f) all_flush = false;
    });
  });
  s.synchronize();
  BOOST_TEST(all_flush);
}

BOOST_AUTO_TEST_CASE(the_first_exception_reaches_the_caller_and_the_pool_goes_on) {
  hostcuda::set_pool_threads(3);
  for (int round = 0; round < 20; ++round)
    BOOST_CHECK_THROW(hostcuda::parallel_for(100, 1,
                                             [](std::size_t i) {
                                               if (i % 10 == 3) throw std::runtime_error("planted");
                                             }),
                      std::runtime_error);
  std::atomic<int> sum{0};
  hostcuda::parallel_for(100, 1, [&](std::size_t) { ++sum; });
  BOOST_TEST(sum == 100);
}

BOOST_AUTO_TEST_CASE(a_pool_has_at_least_one_thread) {
  for (const int threads : {0, -1, 1 << 20})
    BOOST_CHECK_THROW(hostcuda::set_pool_threads(threads), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
