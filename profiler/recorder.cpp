// recorder.cpp - see recorder.h. The order of the calls is the point of this file: CUPTI forgives few others.
#include "profiler/recorder.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "profiler/activity_buffers.h"
#include "profiler/cupti_versions.h"
#include "profiler/decode.h"
#include "profiler/range_log.h"
#include "runtime/cuda.h"

namespace spillway::profiler {
namespace {

// What is recorded. DRIVER too: cuBLAS launches through the driver's interface.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
    CUPTI_ACTIVITY_KIND_OVERHEAD,
    CUPTI_ACTIVITY_KIND_MEMORY2,
    CUPTI_ACTIVITY_KIND_MEMORY_POOL,
};

// CUPTI's callbacks carry no context, so there is one of these for the whole process.
ActivityBuffers& buffers() {
  static ActivityBuffers& all = *new ActivityBuffers;  // never destroyed: CUPTI may call back while the program ends
  return all;
}

std::string text_of(CUptiResult result) {
  const char* text = nullptr;
  return cuptiGetResultString(result, &text) == CUPTI_SUCCESS && text ? text
                                                                      : fmt::format("CUPTI error {}", int{result});
}

// Once in a process: CUPTI takes the clock and the callbacks for good.
CUptiResult register_callbacks() {
  static const CUptiResult result = [] {
    const CUptiResult clock = cuptiActivityRegisterTimestampCallback(clock_ns);
    if (clock != CUPTI_SUCCESS) return clock;
    return cuptiActivityRegisterCallbacks(
        [](std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
          *buffer = buffers().give(*bytes);
          *max_records = 0;
        },
        [](CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
          buffers().take_back(buffer, valid_bytes);
        });
  }();
  return result;
}

}  // namespace

struct Recorder::Impl {
  // Why it cannot be; "" when it records.
  std::string begin() {
    int devices = 0;
    if (const cudaError_t e = cudaGetDeviceCount(&devices); e != cudaSuccess || devices == 0) return "no device";
    std::uint32_t version = 0;
    if (const CUptiResult r = cuptiGetVersion(&version); r != CUPTI_SUCCESS) return "CUPTI: " + text_of(r);
    if (version == SPILLWAY_BROKEN_CUPTI)
      return "the CUPTI of CUDA 13.0.0 is known to crash: install CUDA 13.0 Update 1 or later";
    tool = name_of(version);
    if (const CUptiResult r = cuptiSubscribe(
            &subscriber, [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}, nullptr);
        r != CUPTI_SUCCESS) {
      subscriber = nullptr;
      return r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ? "another profiler owns CUPTI"
                                                                 : "CUPTI: " + text_of(r);
    }
    if (const CUptiResult r = register_callbacks(); r != CUPTI_SUCCESS) return "CUPTI: " + text_of(r);
    cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    check(cudaDeviceSynchronize());
    std::size_t before = 0;  // dropped by whoever recorded before
    cuptiActivityGetNumDroppedRecords(nullptr, 0, &before);
    buffers().take_filled();
    log.emplace();
    window.begin = static_cast<Nanoseconds>(clock_ns());
    for (const CUpti_ActivityKind kind : kKinds) {
      if (const CUptiResult r = cuptiActivityEnable(kind); r != CUPTI_SUCCESS)
        return fmt::format("CUPTI records no activity of kind {}: {}", int{kind}, text_of(r));
      ++enabled;
    }
    return "";
  }

  static std::string name_of(std::uint32_t version) {
#ifdef SPILLWAY_HOST
    return fmt::format("hostcuda (records as of CUPTI API version {})", version);
#else
    return fmt::format("CUPTI API version {}", version);
#endif
  }

  // Ends the recording; what was lost in it.
  std::size_t end() {
    // Work that is still running has no times yet.
    cudaDeviceSynchronize();
    cuptiActivityFlushAll(0);
    for (; enabled > 0; --enabled) cuptiActivityDisable(kKinds[enabled - 1]);
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::size_t dropped = 0;
    cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
    window.end = static_cast<Nanoseconds>(clock_ns());
    if (subscriber) cuptiUnsubscribe(std::exchange(subscriber, nullptr));
    return dropped;
  }

  std::string tool, unavailable;
  CUpti_SubscriberHandle subscriber = nullptr;
  std::optional<RangeLog> log;
  std::size_t enabled = 0;  // kinds, from the first
  Interval window;
  std::vector<StreamName> streams;
};

Recorder::Recorder() : impl_(std::make_unique<Impl>()) {
  impl_->unavailable = impl_->begin();
  if (impl_->unavailable.empty()) return;
  if (impl_->subscriber) impl_->end();
  impl_->log.reset();
}

Recorder::~Recorder() {
  if (!impl_->log) return;
  impl_->end();
  buffers().take_filled();
}

const std::string& Recorder::unavailable() const {
  return impl_->unavailable;
}

void Recorder::name_stream(cudaStream_t stream, std::string name) {
  std::uint32_t id = 0;
  if (impl_->log && cuptiGetStreamIdEx(nullptr, stream, 0, &id) == CUPTI_SUCCESS)
    impl_->streams.push_back({id, std::move(name)});
}

std::function<Nanoseconds()> Recorder::clock() const {
  return [begin = impl_->window.begin] { return static_cast<Nanoseconds>(clock_ns()) - begin; };
}

Profile Recorder::stop() {
  Profile profile;
  if (!impl_->log) {
    profile.tool = impl_->tool;
    profile.unavailable = impl_->unavailable.empty() ? "the recording was stopped before" : impl_->unavailable;
    return profile;
  }
  Recording recording;
  recording.dropped = impl_->end();
  recording.window = impl_->window;
  recording.ranges = impl_->log->ranges();
  recording.works = impl_->log->works();
  recording.streams = impl_->streams;
  impl_->log.reset();
  const std::vector<ActivityBuffers::Filled> filled = buffers().take_filled();
  for (const ActivityBuffers::Filled& buffer : filled) recording.buffers.push_back({buffer.data.get(), buffer.bytes});
  profile = decode(recording);
  profile.tool = impl_->tool;
  return profile;
}

}  // namespace spillway::profiler
