// activity_test.cpp - the host device's activity records: what a profiler reads of a GPU it can read of this one, and
// being watched changes nothing in the order of the streams.
#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>

#include "test/planted.h"
#include "test/runtime/hostcuda/device_fixture.h"

namespace spillway::test {
namespace {

// Everything of one kind, as it was delivered.
struct Reader {
  static Reader& self() {
    static Reader reader;
    return reader;
  }
  std::mutex mutex;
  std::vector<std::vector<std::uint64_t>> buffers;
  std::map<std::uint8_t*, std::unique_ptr<std::vector<std::uint64_t>>> given;
  std::size_t buffer_words = 1 << 16;
  std::size_t max_records = 0;

  static void requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
    Reader& r = self();
    const std::lock_guard lock(r.mutex);
    *max_records = r.max_records;
    *bytes = r.buffer_words * sizeof(std::uint64_t);
    *buffer = nullptr;
    if (r.buffer_words == 0) return;
    auto words = std::make_unique<std::vector<std::uint64_t>>(r.buffer_words);
    *buffer = reinterpret_cast<std::uint8_t*>(words->data());
    r.given[*buffer] = std::move(words);
  }
  static void completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    Reader& r = self();
    const std::lock_guard lock(r.mutex);
    std::vector<std::uint64_t>& words = *r.given[buffer];
    words.resize(valid / sizeof(std::uint64_t));
    r.buffers.push_back(std::move(words));
    r.given.erase(buffer);
  }
};

constexpr CUpti_ActivityKind kAll[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                       CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                       CUPTI_ACTIVITY_KIND_MEMCPY,
                                       CUPTI_ACTIVITY_KIND_MEMSET,
                                       CUPTI_ACTIVITY_KIND_RUNTIME,
                                       CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                       CUPTI_ACTIVITY_KIND_OVERHEAD,
                                       CUPTI_ACTIVITY_KIND_MEMORY2};

struct Recorded : TwoStreams {
  Recorded() {
    Reader::self().buffers.clear();
    Reader::self().buffer_words = 1 << 16;
    Reader::self().max_records = 0;
    BOOST_TEST(cuptiActivityRegisterCallbacks(Reader::requested, Reader::completed) == CUPTI_SUCCESS);
    for (const auto kind : kAll) BOOST_TEST(cuptiActivityEnable(kind) == CUPTI_SUCCESS);
  }
  ~Recorded() {
    for (const auto kind : kAll) cuptiActivityDisable(kind);
    cudaDeviceSynchronize();
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::size_t dropped = 0;
    cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  }
  void flush(std::uint32_t flags = 0) { BOOST_TEST(cuptiActivityFlushAll(flags) == CUPTI_SUCCESS); }
  template <class R>
  std::vector<R> records(CUpti_ActivityKind kind) {
    std::vector<R> all;
    for (auto& words : Reader::self().buffers) {
      CUpti_Activity* record = nullptr;
      while (cuptiActivityGetNextRecord(reinterpret_cast<std::uint8_t*>(words.data()),
                                        words.size() * sizeof(std::uint64_t), &record) == CUPTI_SUCCESS)
        if (record->kind == kind) all.push_back(*reinterpret_cast<const R*>(record));
    }
    return all;
  }
  std::vector<CUpti_ActivityAPI> calls(const std::string& function) {
    std::vector<CUpti_ActivityAPI> all;
    for (const auto& r : records<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME)) {
      const char* name = nullptr;
      BOOST_TEST(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, r.cbid, &name) == CUPTI_SUCCESS);
      if (name == function) all.push_back(r);
    }
    return all;
  }
  std::vector<CUpti_ActivityKernel9> kernels() {
    return records<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  }
};

BOOST_FIXTURE_TEST_SUITE(activity_records, Recorded)

BOOST_AUTO_TEST_CASE(a_kernel_is_recorded_with_its_stream_its_times_and_the_call_that_launched_it) {
  run_on(a, [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
  run_on(b, [] {});
  check(cudaDeviceSynchronize());
  flush();
  const auto kernels = this->kernels();
  const auto launches = calls("cudaLaunchKernel");
  BOOST_TEST_REQUIRE(kernels.size() == 2);
  BOOST_TEST_REQUIRE(launches.size() == 2);
  std::uint32_t id = 0;
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(kernels[i].correlationId == launches[i].correlationId);
    BOOST_TEST(cuptiGetStreamIdEx(nullptr, (i == 0 ? a : b).get(), 0, &id) == CUPTI_SUCCESS);
    BOOST_TEST(kernels[i].streamId == id);
    BOOST_TEST(kernels[i].start >= launches[i].start);
    BOOST_TEST(kernels[i].name == std::string("task"));
  }
  BOOST_TEST(launches[0].correlationId != launches[1].correlationId);
  BOOST_TEST(kernels[0].end - kernels[0].start >= 3'000'000u);
}

BOOST_AUTO_TEST_CASE(copies_and_memsets_are_recorded_with_their_bytes_and_memories) {
  const DeviceBytes device(4096);
  const PinnedBytes pinned(4096);
  std::vector<char> pageable(1000);
  check(cudaMemsetAsync(device.data, 7, 4096, a.get()));
  check(cudaMemcpyAsync(pinned.data, device.data, 4096, cudaMemcpyDeviceToHost, a.get()));
  check(cudaMemcpyAsync(device.data, pageable.data(), 1000, cudaMemcpyHostToDevice, a.get()));
  check(cudaStreamSynchronize(a.get()));
  flush();
  const auto sets = records<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  BOOST_TEST_REQUIRE(sets.size() == 1);
  BOOST_TEST(sets[0].bytes == 4096u);
  BOOST_TEST(sets[0].value == 7u);
  const auto copies = records<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_KIND_MEMCPY);
  BOOST_TEST_REQUIRE(copies.size() == 2);
  BOOST_TEST(int{copies[0].copyKind} == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  BOOST_TEST(int{copies[0].srcKind} == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  BOOST_TEST(int{copies[0].dstKind} == CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  BOOST_TEST(int{copies[1].copyKind} == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  BOOST_TEST(int{copies[1].srcKind} == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
  BOOST_TEST(copies[1].bytes == 1000u);
  BOOST_TEST(copies[0].end <= copies[1].start);
}

BOOST_AUTO_TEST_CASE(memory_is_recorded_when_it_is_given_and_when_it_is_taken_back) {
  {
    const DeviceBytes device(4096);
    const PinnedBytes pinned(512);
  }
  flush();
  const auto memory = records<CUpti_ActivityMemory3>(CUPTI_ACTIVITY_KIND_MEMORY2);
  BOOST_TEST_REQUIRE(memory.size() == 4);
  BOOST_TEST(memory[0].memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  BOOST_TEST(memory[0].bytes == 4096u);
  BOOST_TEST(memory[1].memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  BOOST_TEST(memory[2].memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
  BOOST_TEST(memory[2].address == memory[1].address);
  BOOST_TEST(memory[3].address == memory[0].address);
  BOOST_TEST(memory[3].bytes == 4096u);
}

BOOST_AUTO_TEST_CASE(a_call_belongs_to_the_ids_on_top_of_its_threads_stacks) {
  const auto custom0 = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, custom1 = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
  BOOST_TEST(cuptiActivityPushExternalCorrelationId(custom0, 11) == CUPTI_SUCCESS);
  run_on(a, [] {});
  BOOST_TEST(cuptiActivityPushExternalCorrelationId(custom0, 12) == CUPTI_SUCCESS);
  BOOST_TEST(cuptiActivityPushExternalCorrelationId(custom1, 5) == CUPTI_SUCCESS);
  run_on(a, [] {});
  std::thread([&] { run_on(a, [] {}); }).join();  // another thread, other stacks
  std::uint64_t id = 0;
  BOOST_TEST(cuptiActivityPopExternalCorrelationId(custom0, &id) == CUPTI_SUCCESS);
  BOOST_TEST(id == 12u);
  BOOST_TEST(cuptiActivityPopExternalCorrelationId(custom1, &id) == CUPTI_SUCCESS);
  BOOST_TEST(cuptiActivityPopExternalCorrelationId(custom0, &id) == CUPTI_SUCCESS);
  BOOST_TEST(cuptiActivityPopExternalCorrelationId(custom0, &id) == CUPTI_ERROR_QUEUE_EMPTY);
  BOOST_TEST(cuptiActivityPopExternalCorrelationId(custom1, &id) == CUPTI_ERROR_QUEUE_EMPTY);
  check(cudaStreamSynchronize(a.get()));
  flush();
  const auto launches = calls("cudaLaunchKernel");
  BOOST_TEST_REQUIRE(launches.size() == 3);
  std::vector<std::pair<int, std::uint64_t>> of[3];
  for (const auto& e : records<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
    for (int i = 0; i < 3; ++i)
      if (e.correlationId == launches[i].correlationId) of[i].emplace_back(e.externalKind, e.externalId);
  BOOST_TEST((of[0] == std::vector<std::pair<int, std::uint64_t>>{{custom0, 11}}));
  BOOST_TEST((of[1] == std::vector<std::pair<int, std::uint64_t>>{{custom0, 12}, {custom1, 5}}));
  BOOST_TEST(of[2].empty());
}

BOOST_AUTO_TEST_CASE(a_flush_gives_what_is_finished_and_a_forced_one_the_rest_without_times) {
  Gate gate(a);
  run_on(b, [] {});
  check(cudaStreamSynchronize(b.get()));
  flush();
  BOOST_TEST(kernels().size() == 1);
  flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const auto all = kernels();
  gate.open = true;
  check(cudaStreamSynchronize(a.get()));  // the gate is read until then
  BOOST_TEST_REQUIRE(all.size() == 2);
  BOOST_TEST(all[0].end > 0u);
  BOOST_TEST(all[1].start == 0u);
  BOOST_TEST(all[1].end == 0u);
}

BOOST_AUTO_TEST_CASE(what_finds_no_buffer_is_counted_as_dropped_once) {
  Reader::self().buffer_words = 0;
  run_on(a, [] {});
  check(cudaStreamSynchronize(a.get()));
  flush();
  std::size_t dropped = 0;
  BOOST_TEST(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS);
  BOOST_TEST(dropped >= 3u);  // a kernel and two calls, and a wait
  BOOST_TEST(kernels().empty());
  BOOST_TEST(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS);
  BOOST_TEST(dropped == 0u);
}

BOOST_AUTO_TEST_CASE(a_buffer_holds_no_more_records_than_it_was_asked_to) {
  Reader::self().max_records = 1;
  for (int i = 0; i < 4; ++i) run_on(a, [] {});
  check(cudaStreamSynchronize(a.get()));
  flush();
  BOOST_TEST(kernels().size() == 4);
  BOOST_TEST(Reader::self().buffers.size() >= 8);
}

BOOST_AUTO_TEST_CASE(a_failed_call_is_recorded_with_its_error) {
  hostcuda::fail_call("cudaMalloc", 1, cudaErrorMemoryAllocation);
  void* p = nullptr;
  BOOST_TEST(cudaMalloc(&p, 512) == cudaErrorMemoryAllocation);
  cudaGetLastError();
  flush();
  const auto mallocs = calls("cudaMalloc");
  BOOST_TEST_REQUIRE(mallocs.size() == 1);
  BOOST_TEST(mallocs[0].returnValue == std::uint32_t{cudaErrorMemoryAllocation});
}

BOOST_AUTO_TEST_CASE(a_wait_of_the_host_is_recorded_for_as_long_as_it_took) {
  run_on(a, [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
  check(cudaStreamSynchronize(a.get()));
  flush();
  const auto waits = records<CUpti_ActivitySynchronization>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  BOOST_TEST_REQUIRE(waits.size() == 1);
  BOOST_TEST(waits[0].type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
  BOOST_TEST(waits[0].end > waits[0].start);
}

BOOST_AUTO_TEST_CASE(nothing_is_recorded_of_what_nobody_asked_for) {
  for (const auto kind : kAll) cuptiActivityDisable(kind);
  run_on(a, [] {});
  check(cudaStreamSynchronize(a.get()));
  flush();
  BOOST_TEST(Reader::self().buffers.empty());
}

// The record of each task is its own, so recording gives two streams nothing in common that would order them: what two
// streams write without a wait between them is a race, recorded or not.
BOOST_AUTO_TEST_CASE(recording_does_not_order_two_streams) {
#if defined(__SANITIZE_THREAD__)
  static int shared = 0;
  static std::atomic<int> passed{0};
  expect_report("ThreadSanitizer: data race", [this] {
    passed = 0;
    run_on(a, [] { shared = 1; });
    run_on(a, [] { passed.store(1, std::memory_order_relaxed); });
    // The other stream's write comes when all of the first's record is made, and nothing but recording could order it.
    run_on(b, [] {
      while (passed.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
    });
    run_on(b, [] { shared = 2; });
    check(cudaStreamSynchronize(a.get()));
    check(cudaStreamSynchronize(b.get()));
  });
#endif
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(profiling_has_one_owner_at_a_time) {
  const CUpti_CallbackFunc nothing = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
  CUpti_SubscriberHandle first = nullptr, second = nullptr;
  BOOST_TEST(cuptiSubscribe(&first, nothing, nullptr) == CUPTI_SUCCESS);
  BOOST_TEST(cuptiSubscribe(&second, nothing, nullptr) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  BOOST_TEST(cuptiUnsubscribe(first) == CUPTI_SUCCESS);
  BOOST_TEST(cuptiSubscribe(&second, nothing, nullptr) == CUPTI_SUCCESS);
  BOOST_TEST(cuptiUnsubscribe(second) == CUPTI_SUCCESS);
  BOOST_TEST(cuptiUnsubscribe(second) == CUPTI_ERROR_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(a_delayed_host_pays_for_every_launch) {
  TwoStreams s;
  hostcuda::arm_fault("delay:host:2ms");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) run_on(s.a, [] {});
  BOOST_TEST((std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(10)));
}

}  // namespace
}  // namespace spillway::test
