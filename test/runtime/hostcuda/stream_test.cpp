// Streams, events and host callbacks behave as CUDA documents them. Slowness is made with delay_stream, never measured.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/cuda.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/stream.h"
#include "test/fixture.h"
#include "test/planted.h"

using namespace spillway;
using namespace std::chrono_literals;

namespace {

struct TwoStreams {
  Stream a{"a"}, b{"b"};  // numbers 0 and 1
  ~TwoStreams() {
    a.synchronize();
    b.synchronize();
    hostcuda::reset_faults();
  }
};

void add(const Stream& s, std::vector<int>& log, int value) {
  check(hostcuda::enqueue("cudaLaunchKernel", s.get(), [&log, value] { log.push_back(value); }));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(streams, TwoStreams)

BOOST_AUTO_TEST_CASE(a_stream_runs_its_tasks_in_order_while_the_host_goes_on) {
  std::vector<int> log;
  hostcuda::delay_stream(0, 1ms);
  for (int i = 0; i < 20; ++i) add(a, log, i);
  a.synchronize();
  BOOST_REQUIRE(log.size() == 20U);
  for (int i = 0; i < 20; ++i) BOOST_TEST(log[static_cast<std::size_t>(i)] == i);
}

BOOST_AUTO_TEST_CASE(a_launch_returns_before_its_work_is_done) {
  std::atomic<bool> go{false}, done{false};
  check(hostcuda::enqueue("cudaLaunchKernel", a.get(), [&] {
    while (!go) std::this_thread::yield();
    done = true;
  }));
  BOOST_TEST(!done);  // the stream waits for the host, so the host cannot have waited for it
  go = true;
  a.synchronize();
  BOOST_TEST(done);
}

BOOST_AUTO_TEST_CASE(streams_run_side_by_side) {
  std::atomic<bool> seen_a{false}, seen_b{false};
  const auto meet = [](std::atomic<bool>& mine, std::atomic<bool>& other) {
    mine = true;
    while (!other) std::this_thread::yield();  // in one queue this would never end
  };
  check(hostcuda::enqueue("cudaLaunchKernel", a.get(), [&] { meet(seen_a, seen_b); }));
  check(hostcuda::enqueue("cudaLaunchKernel", b.get(), [&] { meet(seen_b, seen_a); }));
  check(cudaDeviceSynchronize());
  BOOST_TEST(seen_a);
}

BOOST_AUTO_TEST_CASE(a_stream_waits_for_the_point_at_which_an_event_was_recorded) {
  std::vector<int> log;
  Event e;
  hostcuda::delay_stream(0, 5ms);
  add(a, log, 1);
  e.record(a.get());
  check(cudaStreamWaitEvent(b.get(), e.get()));
  add(b, log, 2);
  b.synchronize();
  BOOST_TEST((log == std::vector<int>{1, 2}));
}

BOOST_AUTO_TEST_CASE(a_wait_is_for_the_record_before_it_and_not_for_a_later_one) {
  std::atomic<bool> go{false};
  Event e;
  e.record(a.get());
  check(cudaStreamWaitEvent(b.get(), e.get()));
  check(hostcuda::enqueue("cudaLaunchKernel", a.get(), [&] {
    while (!go) std::this_thread::yield();
  }));
  e.record(a.get());  // this point is not reached before `go`
  b.synchronize();    // returns all the same
  go = true;
  a.synchronize();
}

BOOST_AUTO_TEST_CASE(an_event_that_was_never_recorded_is_waited_for_by_nobody) {
  const Event e;
  check(cudaStreamWaitEvent(b.get(), e.get()));
  b.synchronize();
  e.synchronize();
}

BOOST_AUTO_TEST_CASE(elapsed_time_lies_between_the_delays_that_were_asked_for) {
  Event start(Event::Timing::on), stop(Event::Timing::on);
  hostcuda::delay_stream(0, 5ms);
  std::vector<int> log;
  start.record(a.get());
  add(a, log, 1);
  add(a, log, 2);
  stop.record(a.get());
  float ms = 0;
  BOOST_TEST(cudaEventElapsedTime(&ms, start.get(), stop.get()) == cudaErrorNotReady);
  cudaGetLastError();
  a.synchronize();
  BOOST_TEST(elapsed_ms(start, stop) >= 10.f);
  const Event untimed;
  BOOST_TEST(cudaEventElapsedTime(&ms, untimed.get(), stop.get()) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(a_host_callback_runs_in_the_streams_order) {
  std::vector<int> log;
  add(a, log, 1);
  check(cudaLaunchHostFunc(
      a.get(), [](void* p) { static_cast<std::vector<int>*>(p)->push_back(2); }, &log));
  add(a, log, 3);
  a.synchronize();
  BOOST_TEST((log == std::vector<int>{1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(destroying_a_stream_lets_its_queue_run_out) {
  std::vector<int> log;
  {
    const Stream gone("gone");
    hostcuda::delay_stream(2, 2ms);
    for (int i = 0; i < 5; ++i) add(gone, log, i);
  }
  BOOST_TEST(log.size() == 5U);
}

BOOST_AUTO_TEST_CASE(a_handle_that_is_no_stream_is_an_invalid_resource) {
  int nothing = 0;
  const auto bad = reinterpret_cast<cudaStream_t>(&nothing);
  BOOST_TEST(cudaStreamSynchronize(bad) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);  // forgotten: it was not sticky
}

BOOST_AUTO_TEST_CASE(a_missing_stream_wait_is_caught) {
  test::expect_caught([] {
    const Stream writer("writer"), reader("reader");
    int value = 0, seen = 0;
    hostcuda::delay_stream(-1, 0us);
    check(hostcuda::enqueue("cudaLaunchKernel", writer.get(), [&] {
      std::this_thread::sleep_for(2ms);
      value = 1;
    }));
    // The wait of `reader` for `writer` should stand here.
    check(hostcuda::enqueue("cudaLaunchKernel", reader.get(), [&] { seen = value; }));
    writer.synchronize();
    reader.synchronize();
    return seen == 1;
  });
}

BOOST_AUTO_TEST_SUITE_END()
