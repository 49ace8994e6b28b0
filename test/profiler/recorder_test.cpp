// recorder_test.cpp - a recording of the device, from the ranges of the host to the profile: attribution, streams,
// declared work, what is lost, and who may record.
#include "profiler/recorder.h"

#include <cupti.h>

#include <algorithm>
#include <thread>

#include "kernels/fill.h"
#include "profiler/activity_buffers.h"
#include "profiler/range.h"
#include "runtime/cuda.h"
#include "test/fixture.h"

namespace spillway::test {
namespace {

using namespace spillway::profiler;

struct Device {
  static constexpr std::int64_t kCount = 1 << 20;
  Device() {
    check(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)));
    check(cudaMalloc(reinterpret_cast<void**>(&other), kCount * sizeof(float)));
  }
  ~Device() {
    cudaDeviceSynchronize();
    cudaFree(data);
    cudaFree(other);
  }
  Device(const Device&) = delete;
  void fill(float value) { kernels::fill(data, value, kCount, compute.get()); }
  void clear() { check(cudaMemsetAsync(other, 0, kCount * sizeof(float), copy.get())); }
  Stream compute{"compute"}, copy{"copy"};
  float *data = nullptr, *other = nullptr;  // of the compute and of the copy stream
};

const RangeSpan& range_of(const Profile& p, const DeviceActivity& a) {
  const auto it = std::find_if(p.ranges.begin(), p.ranges.end(), [&](const RangeSpan& r) { return r.id == a.range; });
  BOOST_TEST_REQUIRE((it != p.ranges.end()));
  return *it;
}
std::vector<DeviceActivity> kernels_of(const Profile& p) {
  std::vector<DeviceActivity> all;
  std::copy_if(p.device.begin(), p.device.end(), std::back_inserter(all),
               [](const DeviceActivity& a) { return a.kind == DeviceActivity::Kind::kernel; });
  return all;
}

BOOST_FIXTURE_TEST_SUITE(recorder, Device)

BOOST_AUTO_TEST_CASE(work_belongs_to_the_range_that_issued_it_and_not_to_the_one_in_which_it_runs) {
  Recorder recorder;
  BOOST_TEST_REQUIRE(recorder.unavailable() == "");
  {
    const Range first(Phase::forward, "first", 3);
    for (int i = 0; i < 20; ++i) fill(1);  // still running when the next range begins
  }
  {
    const Range second(Phase::backward, "second");
    const Range inner(Phase::recompute, "inner");
    fill(2);
  }
  const Profile p = recorder.stop();
  const auto kernels = kernels_of(p);
  BOOST_TEST_REQUIRE(kernels.size() == 21);
  for (int i = 0; i < 20; ++i) BOOST_TEST(range_of(p, kernels[i]).name == "layer 3 first");
  BOOST_TEST(range_of(p, kernels[20]).name == "inner");
  BOOST_TEST((range_of(p, kernels[20]).phase == Phase::recompute));
  BOOST_TEST_REQUIRE(p.ranges.size() == 3);
  BOOST_TEST(p.ranges[2].parent == p.ranges[1].id);
  BOOST_TEST(p.ranges[1].parent == 0);
  BOOST_TEST(p.completeness.complete());
  BOOST_TEST(p.completeness.records > 21);
}

BOOST_AUTO_TEST_CASE(work_outside_of_every_range_makes_the_profile_incomplete) {
  Recorder recorder;
  fill(1);
  const Profile p = recorder.stop();
  BOOST_TEST(p.completeness.unattributed == 1);
  BOOST_TEST(!p.completeness.complete());
}

BOOST_AUTO_TEST_CASE(a_kernel_carries_what_its_launch_declared_and_nothing_else_does) {
  Recorder recorder;
  {
    const Range range(Phase::forward, "fill");
    fill(1);
    clear();
  }
  const Profile p = recorder.stop();
  BOOST_TEST_REQUIRE(p.works.size() == 1);
  BOOST_TEST(p.works[0].bytes == kCount * std::int64_t{sizeof(float)});
  BOOST_TEST_REQUIRE(p.device.size() == 2);
  for (const DeviceActivity& a : p.device) BOOST_TEST(a.work == (a.kind == DeviceActivity::Kind::kernel ? 1 : 0));
}

BOOST_AUTO_TEST_CASE(no_id_stays_behind_on_a_threads_stack) {
  {
    Recorder recorder;
    const Range range(Phase::forward, "fill");
    fill(1);
    static_cast<void>(recorder.stop());  // within the range, after a declaration
  }
  {
    Recorder recorder;
    const Range range(Phase::forward, "fill");
    fill(1);  // and never stopped
  }
  for (const auto kind : {CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1})
    BOOST_TEST(cuptiActivityPopExternalCorrelationId(kind, nullptr) == CUPTI_ERROR_QUEUE_EMPTY);
}

BOOST_AUTO_TEST_CASE(a_step_is_the_time_from_its_beginning_to_its_last_work) {
  Recorder recorder;
  recorder.name_stream(compute.get(), "compute");
  {
    const Range data(Phase::data, "data");
    clear();
    check(cudaStreamSynchronize(copy.get()));
  }
  for (int i = 0; i < 2; ++i) {
    const Range step(Phase::none, kStepRange);
    const Range range(Phase::forward, "forward");
    fill(1);
    fill(2);
  }
  const Profile p = recorder.stop();
  BOOST_TEST_REQUIRE(p.steps.size() == 2);
  const auto kernels = kernels_of(p);
  BOOST_TEST_REQUIRE(kernels.size() == 4);
  BOOST_TEST(p.steps[0].time.end == kernels[1].time.end);
  BOOST_TEST(p.steps[1].time.end == kernels[3].time.end);
  BOOST_TEST(p.steps[0].time.begin <= kernels[0].time.begin);
  BOOST_TEST(p.steps[1].time.begin >= p.steps[0].time.end);  // the second waited for the first
  BOOST_TEST_REQUIRE(p.streams.size() == 1);
  BOOST_TEST(p.streams[0].stream == kernels[0].stream);
}

BOOST_AUTO_TEST_CASE(a_call_is_the_hosts_and_its_correlation_leads_to_its_work) {
  Recorder recorder;
  {
    const Range range(Phase::forward, "fill");
    fill(1);
    check(cudaDeviceSynchronize());
  }
  const Profile p = recorder.stop();
  const DeviceActivity kernel = kernels_of(p).at(0);
  const auto call = std::find_if(p.host.begin(), p.host.end(),
                                 [&](const HostActivity& h) { return h.correlation == kernel.correlation; });
  BOOST_TEST_REQUIRE((call != p.host.end()));
  BOOST_TEST(call->name == "cudaLaunchKernel");
  BOOST_TEST(call->range == kernel.range);
  BOOST_TEST(call->thread == p.ranges[0].thread);
  BOOST_TEST((call->time.begin <= kernel.time.begin));
  BOOST_TEST(std::count_if(p.host.begin(), p.host.end(), [](const HostActivity& h) {
               return h.kind == HostActivity::Kind::synchronization && h.name == "wait for device";
             }) >= 1);
}

BOOST_AUTO_TEST_CASE(a_second_profiler_is_told_who_owns_the_records_and_the_first_goes_on) {
  CUpti_SubscriberHandle other = nullptr;
  BOOST_TEST(cuptiSubscribe(
                 &other, [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}, nullptr) == CUPTI_SUCCESS);
  Recorder recorder;
  BOOST_TEST(recorder.unavailable() == "another profiler owns CUPTI");
  {
    const Range range(Phase::forward, "fill");
    fill(1);
  }
  const Profile p = recorder.stop();
  BOOST_TEST(p.unavailable == "another profiler owns CUPTI");
  BOOST_TEST(p.device.empty());
  BOOST_TEST(cuptiUnsubscribe(other) == CUPTI_SUCCESS);
  Recorder again;
  BOOST_TEST(again.unavailable() == "");
}

BOOST_AUTO_TEST_CASE(one_recording_after_another_holds_nothing_of_the_first) {
  for (int i = 1; i <= 3; ++i) {
    Recorder recorder;
    {
      const Range range(Phase::forward, "fill");
      for (int k = 0; k < i; ++k) fill(1);
    }
    const Profile p = recorder.stop();
    BOOST_TEST(kernels_of(p).size() == static_cast<std::size_t>(i));
    BOOST_TEST(p.ranges.size() == 1);
    BOOST_TEST(p.works.size() == static_cast<std::size_t>(i));
    BOOST_TEST(p.completeness.complete());
  }
}

BOOST_AUTO_TEST_CASE(memory_that_is_given_and_taken_back_is_in_the_profile) {
  Recorder recorder;
  {
    const Range range(Phase::forward, "memory");
    void *device_bytes = nullptr, *pinned = nullptr;
    check(cudaMalloc(&device_bytes, 4096));
    check(cudaMallocHost(&pinned, 512));
    check(cudaFree(device_bytes));
    check(cudaFreeHost(pinned));
  }
  const Profile p = recorder.stop();
  using Kind = MemoryActivity::Kind;
  const std::pair<Kind, std::int64_t> expected[] = {
      {Kind::device_allocate, 4096}, {Kind::pinned_allocate, 512}, {Kind::device_free, 4096}, {Kind::pinned_free, 512}};
  BOOST_TEST_REQUIRE(p.memory.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    BOOST_TEST((p.memory[i].kind == expected[i].first && p.memory[i].bytes == expected[i].second));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(threads_that_deliver_buffers_at_once_lose_none) {
  ActivityBuffers buffers;
  constexpr int kThreads = 4, kEach = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&buffers, t] {
      for (int i = 0; i < kEach; ++i) {
        std::size_t bytes = 0;
        std::uint8_t* buffer = buffers.give(bytes);
        buffer[0] = static_cast<std::uint8_t>(t);
        buffers.take_back(buffer, static_cast<std::size_t>(i + 1));
        buffers.take_back(buffer, 1);  // not ours any more
      }
    });
  for (std::thread& t : threads) t.join();
  const auto filled = buffers.take_filled();
  BOOST_TEST(filled.size() == kThreads * kEach);
  std::size_t of_thread[kThreads] = {};
  for (const auto& f : filled) of_thread[f.data.get()[0]] += f.bytes;
  for (const std::size_t bytes : of_thread) BOOST_TEST(bytes == kEach * (kEach + 1) / 2);
  BOOST_TEST(buffers.take_filled().empty());
}

}  // namespace
}  // namespace spillway::test
