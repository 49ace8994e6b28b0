// activity.h - what the host device tells a profiler: records in CUPTI's layout of every call, and of every piece of
// work from the call that issued it to the thread that ran it. A piece of work's record belongs to its task alone and
// is handed over by one flag: recording orders no two streams, so a missing stream wait stays a race.
#pragma once
#include <cupti.h>

#include <cstdint>
#include <functional>

namespace spillway::hostcuda {

// Whether anybody wants records of this kind. Relaxed: a call in progress may miss the change.
bool recording(CUpti_ActivityKind kind);
// Now, on the profiler's clock.
std::uint64_t activity_time();

// ---- a call ---------------------------------------------------------------------------------------------------------

// From the call's first line to its last (call.h has one).
class CallRecord {
 public:
  explicit CallRecord(const char* function);
  ~CallRecord();
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

 private:
  const char* function_;
  std::uint64_t start_ = 0;  // 0: nobody records
};

// What the call returned, for its record.
void note_result(cudaError_t error);
// A wait of the host within a call. kNoStream: for all of them.
inline constexpr std::uint32_t kNoStream = UINT32_MAX;
class WaitRecord {
 public:
  WaitRecord(CUpti_ActivitySynchronizationType type, std::uint32_t stream);
  ~WaitRecord();
  WaitRecord(const WaitRecord&) = delete;
  WaitRecord& operator=(const WaitRecord&) = delete;

 private:
  CUpti_ActivitySynchronizationType type_;
  std::uint32_t stream_;
  std::uint64_t start_ = 0;
};
void record_memory(CUpti_ActivityMemoryOperationType operation, CUpti_ActivityMemoryKind kind, const void* address,
                   std::uint64_t bytes);

// ---- work of a stream -----------------------------------------------------------------------------------------------

// Each gives the task back, with a record around it when one is wanted.
struct KernelWork {
  const char* name;  // static
  dim3 grid, block;
  std::size_t shared_bytes;
};
using Task = std::function<void()>;
Task recorded_kernel(const KernelWork& work, std::uint32_t stream, Task task);
Task recorded_copy(CUpti_ActivityMemcpyKind kind, CUpti_ActivityMemoryKind from, CUpti_ActivityMemoryKind to,
                   std::uint64_t bytes, std::uint32_t stream, Task task);
Task recorded_memset(int value, std::uint64_t bytes, std::uint32_t stream, Task task);

}  // namespace spillway::hostcuda
