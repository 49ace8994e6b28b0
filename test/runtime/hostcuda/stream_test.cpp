// Streams and host callbacks behave as CUDA documents them. Slowness is made with gates and delay_stream, never
// measured.
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "test/planted.h"
#include "test/runtime/hostcuda/device_fixture.h"

using namespace spillway;
using namespace std::chrono_literals;
using test::Gate;
using test::run_on;

namespace {

void add(const Stream& s, std::vector<int>& log, int value) {
  run_on(s, [&log, value] { log.push_back(value); });
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(streams, test::TwoStreams)

BOOST_AUTO_TEST_CASE(a_stream_runs_its_tasks_in_order_while_the_host_goes_on) {
  std::vector<int> log;
  hostcuda::delay_stream(0, 1ms);
  for (int i = 0; i < 20; ++i) add(a, log, i);
  a.synchronize();
  BOOST_REQUIRE(log.size() == 20U);
  for (int i = 0; i < 20; ++i) BOOST_TEST(log[static_cast<std::size_t>(i)] == i);
}

BOOST_AUTO_TEST_CASE(a_launch_returns_before_its_work_is_done) {
  Gate gate(a);
  std::atomic<bool> done{false};
  run_on(a, [&] { done = true; });
  BOOST_TEST(!done);  // the stream waits for the host, so the host cannot have waited for it
  gate.open = true;
  a.synchronize();
  BOOST_TEST(done);
}

BOOST_AUTO_TEST_CASE(streams_run_side_by_side) {
  std::atomic<bool> seen_a{false}, seen_b{false};
  const auto meet = [](std::atomic<bool>& mine, std::atomic<bool>& other) {
    mine = true;
    while (!other) std::this_thread::yield();  // in one queue this would never end
  };
  run_on(a, [&] { meet(seen_a, seen_b); });
  run_on(b, [&] { meet(seen_b, seen_a); });
  check(cudaDeviceSynchronize());
  BOOST_TEST(seen_a);
}

BOOST_AUTO_TEST_CASE(a_host_that_waits_for_the_device_does_not_keep_another_from_feeding_it) {
  Gate gate(a);
  const std::uint64_t before = hostcuda::calls("cudaDeviceSynchronize");
  std::thread waiting([] { check(cudaDeviceSynchronize()); });
  while (hostcuda::calls("cudaDeviceSynchronize") == before) std::this_thread::yield();
  std::this_thread::sleep_for(1ms);
  run_on(b, [&] { gate.open = true; });  // what the other one waits for
  waiting.join();
}

BOOST_AUTO_TEST_CASE(the_legacy_default_stream_is_in_order_too) {
  std::vector<int> log;
  for (int i = 0; i < 3; ++i)
    check(hostcuda::enqueue("cudaLaunchKernel", "task", nullptr, [&log, i] { log.push_back(i); }));
  check(cudaStreamSynchronize(nullptr));
  BOOST_TEST((log == std::vector<int>{0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(a_host_callback_runs_in_the_streams_order) {
  std::vector<int> log;
  add(a, log, 1);
  check(cudaLaunchHostFunc(
      a.get(), [](void* p) { static_cast<std::vector<int>*>(p)->push_back(2); }, &log));
  add(a, log, 3);
  a.synchronize();
  BOOST_TEST((log == std::vector<int>{1, 2, 3}));
  BOOST_TEST(cudaLaunchHostFunc(a.get(), nullptr, nullptr) == cudaErrorInvalidValue);
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
  BOOST_TEST(cudaStreamDestroy(bad) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaLaunchHostFunc(
                 bad, [](void*) {}, nullptr) == cudaErrorInvalidResourceHandle);
  cudaStream_t blocking = nullptr;
  BOOST_TEST(cudaStreamCreateWithFlags(&blocking, 0) == cudaErrorInvalidValue);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(denormals_are_zero_where_a_device_computes) {
  const auto is_zero = [] {
    volatile float small = 1e-38f, less = small * 0.1f;
    return less == 0.f;
  };
  BOOST_TEST(!is_zero());  // on the host they are not
  bool on_stream = false;
  run_on(a, [&] { on_stream = is_zero(); });
  a.synchronize();
  BOOST_TEST(on_stream);
}

BOOST_AUTO_TEST_CASE(a_program_may_end_with_work_in_a_queue) {
  constexpr const char* kInside = "SPILLWAY_ENDS_EARLY";
  if (std::getenv(kInside)) {
    // The stream outlives everything that main() owns, and its memory is never given back.
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    char *device = nullptr, *pinned = nullptr;
    check(cudaMalloc(&device, 100));
    check(cudaMallocHost(&pinned, 100));
    hostcuda::delay_stream(-1, 20ms);
    for (int i = 0; i < 100; ++i) check(cudaMemcpyAsync(device, pinned, 100, cudaMemcpyHostToDevice, stream));
    std::exit(0);
  }
  const std::string command = std::string(kInside) + "=1 '" + std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --run_test=" + boost::unit_test::framework::current_test_case().full_name() +
                              " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  BOOST_TEST(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == 0);
}

// ---- what must not go unnoticed -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_missing_stream_wait_is_caught) {
  test::expect_caught([] {
    const Stream writer("writer"), reader("reader");
    int value = 0, seen = 0;
    run_on(writer, [&] {
      std::this_thread::sleep_for(2ms);
      value = 1;
    });
    // The wait of `reader` for `writer` should stand here.
    run_on(reader, [&] { seen = value; });
    writer.synchronize();
    reader.synchronize();
    return seen == 1;
  });
}

#if defined(__SANITIZE_THREAD__)
// The same fault where the order happens to be right: only the missing wait can be seen, and nothing that the runtime
// does for itself (an event used by both streams, recorded again) may pass for one.
BOOST_AUTO_TEST_CASE(a_missing_wait_is_a_race_even_when_the_streams_share_events) {
  test::expect_report("ThreadSanitizer: data race", [] {
    const Stream writer("writer"), reader("reader");
    Event shared;
    int value = 0, seen = 0;
    shared.record(reader.get());
    check(cudaStreamWaitEvent(writer.get(), shared.get()));
    run_on(writer, [&] { value = 1; });
    std::this_thread::sleep_for(20ms);  // it is written by now
    shared.record(reader.get());
    run_on(reader, [&] { seen = value; });
    check(cudaDeviceSynchronize());
    BOOST_TEST(seen == 1);
  });
}

BOOST_AUTO_TEST_CASE(writing_pinned_memory_that_a_queued_copy_reads_is_a_race) {
  test::expect_report("ThreadSanitizer: data race", [] {
    const Stream s("s");
    const test::DeviceBytes device(64);
    const test::PinnedBytes pinned(64);
    Gate gate(s);
    check(cudaMemcpyAsync(device.data, pinned.data, 64, cudaMemcpyHostToDevice, s.get()));
    pinned.data[0] = 1;
    run_on(s, [] {});  // a later launch does not make it right
    gate.open.store(true, std::memory_order_relaxed);
    s.synchronize();
  });
}
#endif

BOOST_AUTO_TEST_SUITE_END()
