// Events: a record is a point in a stream, and whoever waits, waits for that point.
#include "test/runtime/hostcuda/device_fixture.h"

using namespace spillway;
using namespace std::chrono_literals;
using test::Gate;
using test::run_on;

BOOST_FIXTURE_TEST_SUITE(events, test::TwoStreams)

BOOST_AUTO_TEST_CASE(a_stream_waits_for_the_point_at_which_an_event_was_recorded) {
  std::vector<int> log;
  Event e;
  hostcuda::delay_stream(0, 5ms);
  run_on(a, [&] { log.push_back(1); });
  e.record(a.get());
  check(cudaStreamWaitEvent(b.get(), e.get()));
  run_on(b, [&] { log.push_back(2); });
  b.synchronize();
  BOOST_TEST((log == std::vector<int>{1, 2}));
}

BOOST_AUTO_TEST_CASE(a_wait_is_for_the_record_before_it_and_not_for_a_later_one) {
  Event e;
  e.record(a.get());
  check(cudaStreamWaitEvent(b.get(), e.get()));
  Gate gate(a);
  e.record(a.get());  // this point is not reached before the gate opens
  b.synchronize();    // returns all the same
  gate.open = true;
  a.synchronize();
}

BOOST_AUTO_TEST_CASE(records_of_one_event_in_two_streams_are_two_points) {
  const Stream waits_for_first("c");
  Event e;
  Gate gate(a);
  e.record(a.get());
  check(cudaStreamWaitEvent(waits_for_first.get(), e.get()));
  bool was_open = false;
  run_on(waits_for_first, [&] { was_open = gate.open; });
  e.record(b.get());
  e.synchronize();  // the second point: b does not wait for a
  std::this_thread::sleep_for(2ms);
  gate.open = true;
  waits_for_first.synchronize();
  BOOST_TEST(was_open);  // the second record did not let the first's waiter go
  e.synchronize();       // nor did the first, reached last, take the second back
  check(cudaStreamWaitEvent(a.get(), e.get()));
  a.synchronize();
}

BOOST_AUTO_TEST_CASE(an_event_that_was_never_recorded_is_waited_for_by_nobody) {
  const Event e;
  check(cudaStreamWaitEvent(b.get(), e.get()));
  b.synchronize();
  e.synchronize();
}

BOOST_AUTO_TEST_CASE(an_event_destroyed_before_its_record_is_reached_still_holds_who_waits) {
  std::vector<int> log;
  Gate gate(a);
  run_on(a, [&] { log.push_back(1); });
  {
    Event e;
    e.record(a.get());
    check(cudaStreamWaitEvent(b.get(), e.get()));
  }
  Event next;  // may stand where the first one stood
  next.record(b.get());
  run_on(b, [&] { log.push_back(2); });
  gate.open = true;
  b.synchronize();
  BOOST_TEST((log == std::vector<int>{1, 2}));
}

BOOST_AUTO_TEST_CASE(an_event_recorded_many_times_while_nobody_gets_there_keeps_every_point) {
  constexpr int kRecords = 300;
  std::vector<int> log;
  Event e;
  Gate gate(a);
  for (int i = 0; i < kRecords; ++i) {
    run_on(a, [&log, i] { log.push_back(2 * i); });
    e.record(a.get());
    check(cudaStreamWaitEvent(b.get(), e.get()));
    run_on(b, [&log, i] { log.push_back(2 * i + 1); });
    e.record(b.get());
    check(cudaStreamWaitEvent(a.get(), e.get()));
  }
  gate.open = true;
  a.synchronize();
  b.synchronize();
  BOOST_REQUIRE(log.size() == 2U * kRecords);
  for (int i = 0; i < 2 * kRecords; ++i) BOOST_REQUIRE(log[static_cast<std::size_t>(i)] == i);
}

BOOST_AUTO_TEST_CASE(elapsed_time_is_at_least_the_delay_that_was_asked_for) {
  Event start(Event::Timing::on), stop(Event::Timing::on);
  Gate gate(a);
  hostcuda::delay_stream(0, 5ms);
  start.record(a.get());
  run_on(a, [] {});
  run_on(a, [] {});
  stop.record(a.get());
  float ms = 0;
  BOOST_TEST(cudaEventElapsedTime(&ms, start.get(), stop.get()) == cudaErrorNotReady);
  cudaGetLastError();
  gate.open = true;
  a.synchronize();
  BOOST_TEST(elapsed_ms(start, stop) >= 10.f);
  BOOST_TEST(elapsed_ms(stop, start) == -elapsed_ms(start, stop));
}

BOOST_AUTO_TEST_CASE(time_needs_two_events_that_keep_it_and_were_recorded) {
  Event timed(Event::Timing::on), untimed, never(Event::Timing::on);
  timed.record(a.get());
  untimed.record(a.get());
  a.synchronize();
  float ms = 0;
  BOOST_TEST(cudaEventElapsedTime(&ms, untimed.get(), timed.get()) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaEventElapsedTime(&ms, timed.get(), never.get()) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaEventElapsedTime(nullptr, timed.get(), timed.get()) == cudaErrorInvalidValue);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(a_handle_that_is_no_event_is_an_invalid_resource) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  check(cudaEventDestroy(event));
  for (const cudaEvent_t bad : {event, cudaEvent_t{nullptr}}) {
    BOOST_TEST(cudaEventRecord(bad, a.get()) == cudaErrorInvalidResourceHandle);
    BOOST_TEST(cudaStreamWaitEvent(a.get(), bad) == cudaErrorInvalidResourceHandle);
    BOOST_TEST(cudaEventSynchronize(bad) == cudaErrorInvalidResourceHandle);
    BOOST_TEST(cudaEventDestroy(bad) == cudaErrorInvalidResourceHandle);
  }
  cudaGetLastError();
}

BOOST_AUTO_TEST_SUITE_END()
