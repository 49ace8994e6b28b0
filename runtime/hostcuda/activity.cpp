// activity.cpp - see activity.h: the records, from the thread that makes one to the buffer that a profiler gave.
// Records wait in one list, in the order of the calls; only hosts touch the list, and a stream's thread only its task's
// record.
#include "runtime/hostcuda/activity.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/cupti_state.h"

namespace spillway::hostcuda {
namespace {

constexpr std::uint32_t kDevice = 0, kContext = 1;

std::atomic<bool> g_recording[kActivityKinds];
std::atomic<int> g_kinds_recorded{0};
std::atomic<CUpti_TimestampCallbackFunc> g_clock{nullptr};
std::atomic<std::uint32_t> g_correlation{0};

// Of this thread's call in progress.
thread_local std::uint32_t t_correlation = 0;
thread_local cudaError_t t_result = cudaSuccess;
thread_local std::array<std::vector<std::uint64_t>, kExternalKinds> t_external;

// A record as its call made it, and the times of the work that the call issued.
struct Pending {
  std::array<std::byte, kLargestRecord> bytes{};
  std::size_t size = 0;
  std::size_t times_at = 0;  // where in `bytes` start and end belong; 0: the record has its times already
  std::uint64_t times[2] = {};
  std::atomic<bool> finished{false};  // the times are there
};

struct Records {
  std::mutex mutex;  // hosts only
  std::deque<std::shared_ptr<Pending>> waiting;
  std::size_t dropped = 0;
};
Records& records() {
  static Records& all = *new Records;  // never destroyed, see call.cpp
  return all;
}

// Shared by the list and the task: a record that was flushed before its work ended may not go while the task runs.
template <class R>
std::shared_ptr<Pending> add(CUpti_ActivityKind kind, R record, std::size_t times_at = 0) {
  static_assert(std::is_trivially_copyable_v<R> && sizeof(R) <= kLargestRecord);
  record.kind = kind;
  auto pending = std::make_shared<Pending>();
  std::memcpy(pending->bytes.data(), &record, sizeof record);
  pending->size = sizeof record;
  pending->times_at = times_at;
  pending->finished.store(times_at == 0, std::memory_order_relaxed);
  const std::lock_guard lock(records().mutex);
  records().waiting.push_back(pending);
  return pending;
}

// The task with its times taken. What fails leaves none, as work that never ended.
template <class R>
Task timed(CUpti_ActivityKind kind, const R& record, Task task) {
  static_assert(offsetof(R, end) == offsetof(R, start) + sizeof(std::uint64_t));
  return [pending = add(kind, record, offsetof(R, start)), task = std::move(task)] {
    const std::uint64_t start = activity_time();
    task();
    pending->times[0] = start;
    pending->times[1] = activity_time();
    pending->finished.store(true, std::memory_order_release);
  };
}

std::uint32_t thread_id() {
  static thread_local const auto id = static_cast<std::uint32_t>(::gettid());
  return id;
}

bool any_recording() {
  return g_kinds_recorded.load(std::memory_order_relaxed) > 0;
}

}  // namespace

bool recording(CUpti_ActivityKind kind) {
  return kind >= 0 && kind < kActivityKinds && g_recording[kind].load(std::memory_order_relaxed);
}

void set_recording(CUpti_ActivityKind kind, bool on) {
  if (g_recording[kind].exchange(on) != on) g_kinds_recorded += on ? 1 : -1;
}

std::uint64_t activity_time() {
  if (const auto clock = g_clock.load(std::memory_order_relaxed)) return clock();
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count());
}
void set_activity_clock(CUpti_TimestampCallbackFunc clock) {
  g_clock.store(clock);
}

std::vector<std::uint64_t>& external_ids(CUpti_ExternalCorrelationKind kind) {
  return t_external.at(kind);
}

// ---- calls ----------------------------------------------------------------------------------------------------------

CallRecord::CallRecord(const char* function) : function_(function) {
  t_result = cudaSuccess;
  if (!any_recording()) return;
  start_ = activity_time();
  t_correlation = ++g_correlation;
  if (!recording(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
  for (std::size_t kind = 0; kind < t_external.size(); ++kind) {
    if (t_external[kind].empty()) continue;
    CUpti_ActivityExternalCorrelation record{};
    record.externalKind = static_cast<CUpti_ExternalCorrelationKind>(kind);
    record.externalId = t_external[kind].back();
    record.correlationId = t_correlation;
    add(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, record);
  }
}

CallRecord::~CallRecord() {
  if (start_ == 0) return;
  if (recording(CUPTI_ACTIVITY_KIND_RUNTIME)) {
    CUpti_ActivityAPI record{};
    record.cbid = function_id(function_);
    record.start = start_;
    record.end = activity_time();
    record.processId = static_cast<std::uint32_t>(::getpid());
    record.threadId = thread_id();
    record.correlationId = t_correlation;
    record.returnValue = static_cast<std::uint32_t>(t_result);
    add(CUPTI_ACTIVITY_KIND_RUNTIME, record);
  }
  t_correlation = 0;
}

void note_result(cudaError_t error) {
  t_result = error;
}

WaitRecord::WaitRecord(CUpti_ActivitySynchronizationType type, std::uint32_t stream) : type_(type), stream_(stream) {
  if (recording(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) start_ = activity_time();
}

WaitRecord::~WaitRecord() {
  if (start_ == 0) return;
  CUpti_ActivitySynchronization record{};
  record.type = type_;
  record.start = start_;
  record.end = activity_time();
  record.correlationId = t_correlation;
  record.contextId = kContext;
  record.streamId = stream_;
  add(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, record);
}

void record_memory(CUpti_ActivityMemoryOperationType operation, CUpti_ActivityMemoryKind kind, const void* address,
                   std::uint64_t bytes) {
  if (!recording(CUPTI_ACTIVITY_KIND_MEMORY2)) return;
  CUpti_ActivityMemory3 record{};
  record.memoryOperationType = operation;
  record.memoryKind = kind;
  record.correlationId = t_correlation;
  record.address = reinterpret_cast<std::uintptr_t>(address);
  record.bytes = bytes;
  record.timestamp = activity_time();
  record.processId = static_cast<std::uint32_t>(::getpid());
  record.deviceId = kDevice;
  record.contextId = kContext;
  add(CUPTI_ACTIVITY_KIND_MEMORY2, record);
}

// ---- work of a stream -----------------------------------------------------------------------------------------------

Task recorded_kernel(const KernelWork& work, std::uint32_t stream, Task task) {
  if (!recording(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) return task;
  const auto as_int = [](unsigned n) { return static_cast<std::int32_t>(n); };
  CUpti_ActivityKernel9 record{};
  record.deviceId = kDevice;
  record.contextId = kContext;
  record.streamId = stream;
  record.gridX = as_int(work.grid.x);
  record.gridY = as_int(work.grid.y);
  record.gridZ = as_int(work.grid.z);
  record.blockX = as_int(work.block.x);
  record.blockY = as_int(work.block.y);
  record.blockZ = as_int(work.block.z);
  record.dynamicSharedMemory = static_cast<std::int32_t>(work.shared_bytes);
  record.correlationId = t_correlation;
  record.name = work.name;
  return timed(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, record, std::move(task));
}

Task recorded_copy(CUpti_ActivityMemcpyKind kind, CUpti_ActivityMemoryKind from, CUpti_ActivityMemoryKind to,
                   std::uint64_t bytes, std::uint32_t stream, Task task) {
  if (!recording(CUPTI_ACTIVITY_KIND_MEMCPY)) return task;
  CUpti_ActivityMemcpy5 record{};
  record.copyKind = static_cast<std::uint8_t>(kind);
  record.srcKind = static_cast<std::uint8_t>(from);
  record.dstKind = static_cast<std::uint8_t>(to);
  record.bytes = bytes;
  record.deviceId = kDevice;
  record.contextId = kContext;
  record.streamId = stream;
  record.correlationId = t_correlation;
  return timed(CUPTI_ACTIVITY_KIND_MEMCPY, record, std::move(task));
}

Task recorded_memset(int value, std::uint64_t bytes, std::uint32_t stream, Task task) {
  if (!recording(CUPTI_ACTIVITY_KIND_MEMSET)) return task;
  CUpti_ActivityMemset4 record{};
  record.value = static_cast<std::uint32_t>(value);
  record.bytes = bytes;
  record.deviceId = kDevice;
  record.contextId = kContext;
  record.streamId = stream;
  record.correlationId = t_correlation;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  return timed(CUPTI_ACTIVITY_KIND_MEMSET, record, std::move(task));
}

// ---- delivery -------------------------------------------------------------------------------------------------------

namespace {

// One buffer of the profiler's, filled as far as it goes.
class Buffer {
 public:
  explicit Buffer(const BufferCallbacks& callbacks) : callbacks_(callbacks) {
    callbacks_.requested(&data_, &bytes_, &max_records_);
    if (!data_) bytes_ = 0;
  }
  ~Buffer() {
    if (data_) callbacks_.completed(nullptr, 0, data_, bytes_, used_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  bool add(const Pending& record) {
    if (record.size > bytes_ - used_ || (max_records_ > 0 && count_ == max_records_)) return false;
    std::memcpy(data_ + used_, record.bytes.data(), record.size);
    used_ += record.size;
    ++count_;
    return true;
  }

 private:
  const BufferCallbacks& callbacks_;
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0, max_records_ = 0, count_ = 0;
};

}  // namespace

void deliver_records(const BufferCallbacks& callbacks, bool unfinished_too) {
  // Taken out first: the profiler's callbacks run without our lock.
  std::vector<std::shared_ptr<Pending>> ready;
  {
    const std::lock_guard lock(records().mutex);
    std::deque<std::shared_ptr<Pending>> rest;
    for (std::shared_ptr<Pending>& r : records().waiting) {
      const bool deliver = unfinished_too || r->finished.load(std::memory_order_acquire);
      if (deliver)
        ready.push_back(std::move(r));
      else
        rest.push_back(std::move(r));
    }
    records().waiting = std::move(rest);
  }
  std::size_t dropped = 0;
  std::unique_ptr<Buffer> buffer;
  for (const std::shared_ptr<Pending>& r : ready) {
    if (r->times_at != 0 && r->finished.load(std::memory_order_acquire))
      std::memcpy(r->bytes.data() + r->times_at, r->times, sizeof r->times);
    if (buffer && buffer->add(*r)) continue;
    buffer = nullptr;  // handed over before the next is asked for
    buffer = std::make_unique<Buffer>(callbacks);
    if (!buffer->add(*r)) ++dropped;
  }
  buffer = nullptr;
  const std::lock_guard lock(records().mutex);
  records().dropped += dropped;
}

void record_flush(std::uint64_t start) {
  if (!recording(CUPTI_ACTIVITY_KIND_OVERHEAD)) return;
  CUpti_ActivityOverhead2 record{};
  record.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  record.start = start;
  record.end = activity_time();
  add(CUPTI_ACTIVITY_KIND_OVERHEAD, record);
}

std::size_t take_dropped() {
  const std::lock_guard lock(records().mutex);
  return std::exchange(records().dropped, 0);
}

}  // namespace spillway::hostcuda
