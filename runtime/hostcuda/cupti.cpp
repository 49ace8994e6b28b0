// cupti.cpp - CUPTI's calls on a CPU: who profiles, which kinds of records are wanted, and how they are read.
#include <cupti.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>

#include "runtime/hostcuda/activity.h"
#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/cupti_state.h"
#include "runtime/hostcuda/stream_queue.h"

struct CUpti_Subscriber_st {};

namespace {

using namespace spillway::hostcuda;

struct KindSize {
  CUpti_ActivityKind kind;
  std::size_t bytes;  // of its record
};
constexpr KindSize kKinds[] = {
    {CUPTI_ACTIVITY_KIND_MEMCPY, sizeof(CUpti_ActivityMemcpy5)},
    {CUPTI_ACTIVITY_KIND_MEMSET, sizeof(CUpti_ActivityMemset4)},
    {CUPTI_ACTIVITY_KIND_DRIVER, sizeof(CUpti_ActivityAPI)},
    {CUPTI_ACTIVITY_KIND_RUNTIME, sizeof(CUpti_ActivityAPI)},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sizeof(CUpti_ActivityKernel9)},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, sizeof(CUpti_ActivityOverhead2)},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, sizeof(CUpti_ActivitySynchronization)},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sizeof(CUpti_ActivityExternalCorrelation)},
    {CUPTI_ACTIVITY_KIND_MEMORY2, sizeof(CUpti_ActivityMemory3)},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL, sizeof(CUpti_ActivityMemoryPool2)},
};
const KindSize* find_kind(CUpti_ActivityKind kind) {
  const auto* it =
      std::find_if(std::begin(kKinds), std::end(kKinds), [=](const KindSize& k) { return k.kind == kind; });
  return it == std::end(kKinds) ? nullptr : it;
}

struct ResultName {
  CUptiResult result;
  const char* name;
};
constexpr ResultName kResults[] = {
    {CUPTI_SUCCESS, "CUPTI_SUCCESS"},
    {CUPTI_ERROR_INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER"},
    {CUPTI_ERROR_INVALID_OPERATION, "CUPTI_ERROR_INVALID_OPERATION"},
    {CUPTI_ERROR_MAX_LIMIT_REACHED, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
    {CUPTI_ERROR_QUEUE_EMPTY, "CUPTI_ERROR_QUEUE_EMPTY"},
    {CUPTI_ERROR_INVALID_STREAM, "CUPTI_ERROR_INVALID_STREAM"},
    {CUPTI_ERROR_INVALID_KIND, "CUPTI_ERROR_INVALID_KIND"},
    {CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
};

struct Profiler {
  std::mutex mutex;
  BufferCallbacks callbacks;
  std::unique_ptr<CUpti_Subscriber_st> subscriber;
};
Profiler& profiler() {
  static Profiler& all = *new Profiler;  // never destroyed, see call.cpp
  return all;
}

bool valid_external(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID && kind <= CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
}

}  // namespace

CUptiResult cuptiGetVersion(std::uint32_t* version) {
  if (!version) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(std::uint64_t* timestamp) {
  if (!timestamp) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = activity_time();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  const auto* it =
      std::find_if(std::begin(kResults), std::end(kResults), [=](const auto& r) { return r.result == result; });
  if (!text || it == std::end(kResults)) return CUPTI_ERROR_INVALID_PARAMETER;
  *text = it->name;
  return CUPTI_SUCCESS;
}

// ---- who profiles ---------------------------------------------------------------------------------------------------

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void*) {
  if (!subscriber || !callback) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(profiler().mutex);
  if (profiler().subscriber) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  profiler().subscriber = std::make_unique<CUpti_Subscriber_st>();
  *subscriber = profiler().subscriber.get();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  const std::lock_guard lock(profiler().mutex);
  if (!subscriber || profiler().subscriber.get() != subscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  profiler().subscriber = nullptr;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id, const char** name) {
  if (!name || domain != CUPTI_CB_DOMAIN_RUNTIME_API) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = function_name(id);
  return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  return type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

// ---- activity records -----------------------------------------------------------------------------------------------

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  if (!requested || !completed) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(profiler().mutex);
  profiler().callbacks = {requested, completed};
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc timestamp) {
  if (!timestamp) return CUPTI_ERROR_INVALID_PARAMETER;
  set_activity_clock(timestamp);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (!find_kind(kind)) return CUPTI_ERROR_INVALID_KIND;
  set_recording(kind, true);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (!find_kind(kind)) return CUPTI_ERROR_INVALID_KIND;
  set_recording(kind, false);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(std::uint32_t flags) {
  BufferCallbacks callbacks;
  {
    const std::lock_guard lock(profiler().mutex);
    callbacks = profiler().callbacks;
  }
  if (!callbacks.requested) return CUPTI_ERROR_INVALID_OPERATION;
  const std::uint64_t start = activity_time();
  deliver_records(callbacks, (flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  record_flush(start);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes, CUpti_Activity** record) {
  if (!buffer || !record) return CUPTI_ERROR_INVALID_PARAMETER;
  std::uint8_t* at = buffer;
  if (*record) {
    const KindSize* last = find_kind((*record)->kind);
    if (!last) return CUPTI_ERROR_INVALID_KIND;
    at = reinterpret_cast<std::uint8_t*>(*record) + last->bytes;
  }
  const auto left = static_cast<std::size_t>(buffer + valid_bytes - at);
  if (left < sizeof(CUpti_Activity)) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* next = reinterpret_cast<CUpti_Activity*>(at);
  const KindSize* kind = find_kind(next->kind);
  if (!kind) return CUPTI_ERROR_INVALID_KIND;
  if (left < kind->bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = next;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  if (!dropped) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = take_dropped();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  if (!valid_external(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  external_ids(kind).push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* id) {
  if (!valid_external(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  std::vector<std::uint64_t>& ids = external_ids(kind);
  if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (id) *id = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, std::uint8_t, std::uint32_t* id) {
  if (!id) return CUPTI_ERROR_INVALID_PARAMETER;
  const auto queue = find_stream(stream);
  if (!queue) return CUPTI_ERROR_INVALID_STREAM;
  *id = queue->id();
  return CUPTI_SUCCESS;
}
