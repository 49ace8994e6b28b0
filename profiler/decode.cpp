// decode.cpp - see decode.h.
#include "profiler/decode.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "profiler/cupti_versions.h"
#include "profiler/range.h"

namespace spillway::profiler {
namespace {

// What a call's correlation id leads to.
struct Issuer {
  std::uint64_t range = 0, work = 0;
};

std::string demangled(const char* name) {
  if (!name) return "(unnamed kernel)";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && plain ? plain.get() : name;
}

// "cudaMalloc" of "cudaMalloc_v3020"; "cudaLaunchKernel" of "cudaLaunchKernel_ptsz_v7000".
std::string without_version(std::string_view name) {
  const std::size_t v = name.rfind("_v");
  if (v != std::string_view::npos && v + 2 < name.size() &&
      name.find_first_not_of("0123456789", v + 2) == std::string_view::npos)
    name = name.substr(0, v);
  for (const std::string_view suffix : {"_ptsz", "_ptds"})
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return std::string(name);
}

std::string call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  const char* name = nullptr;
  if (cuptiGetCallbackName(domain, id, &name) != CUPTI_SUCCESS || !name) return "call " + std::to_string(id);
  return without_version(name);
}

const char* synchronization_name(CUpti_ActivitySynchronizationType type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      return "wait for event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      return "wait for stream";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      return "wait for device";
    default:
      return nullptr;  // a stream that waits for an event: no wait of the host
  }
}

class Decoder {
 public:
  explicit Decoder(const Recording& recording) : in_(recording) {}

  Profile run() {
    profile_.works = in_.works;
    profile_.streams = in_.streams;
    profile_.completeness.dropped = static_cast<std::int64_t>(in_.dropped);
    for (RangeSpan range : in_.ranges) {
      if (range.host.end == 0) range.host.end = in_.window.end;
      range.host = {relative(range.host.begin), relative(range.host.end)};
      profile_.ranges.push_back(std::move(range));
    }
    each([this](const CUpti_Activity& record) { correlate(record); });
    each([this](const CUpti_Activity& record) { read(record); });
    const auto by_begin = [](const auto& a, const auto& b) { return a.time.begin < b.time.begin; };
    std::stable_sort(profile_.device.begin(), profile_.device.end(), by_begin);
    std::stable_sort(profile_.host.begin(), profile_.host.end(), by_begin);
    std::stable_sort(profile_.memory.begin(), profile_.memory.end(),
                     [](const MemoryActivity& a, const MemoryActivity& b) { return a.at < b.at; });
    find_steps();
    return std::move(profile_);
  }

 private:
  template <class F>
  void each(F&& f) const {
    for (const RecordBytes& buffer : in_.buffers) {
      CUpti_Activity* record = nullptr;
      while (cuptiActivityGetNextRecord(buffer.data, buffer.bytes, &record) == CUPTI_SUCCESS) f(*record);
    }
  }
  template <class R>
  static const R& as(const CUpti_Activity& record) {
    return reinterpret_cast<const R&>(record);
  }
  Nanoseconds relative(Nanoseconds at) const { return at - in_.window.begin; }
  Nanoseconds relative(std::uint64_t at) const { return static_cast<Nanoseconds>(at) - in_.window.begin; }

  // First pass: which range and which declared work a call belongs to.
  void correlate(const CUpti_Activity& record) {
    if (record.kind != CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) return;
    const auto& r = as<cupti::ExternalCorrelation>(record);
    Issuer& issuer = issuers_[r.correlationId];
    if (r.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) issuer.range = r.externalId;
    if (r.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1 && r.externalId <= in_.works.size())
      issuer.work = r.externalId;
  }

  void read(const CUpti_Activity& record) {
    ++profile_.completeness.records;
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& r = as<cupti::Kernel>(record);
        add_work(r, DeviceActivity::Kind::kernel, demangled(r.name), 0);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& r = as<cupti::Memcpy>(record);
        const auto kind = r.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? DeviceActivity::Kind::host_to_device
                          : r.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? DeviceActivity::Kind::device_to_host
                                                                          : DeviceActivity::Kind::device_to_device;
        add_work(r, kind, to_string(kind), r.bytes);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& r = as<cupti::Memset>(record);
        add_work(r, DeviceActivity::Kind::memset, to_string(DeviceActivity::Kind::memset), r.bytes);
        break;
      }
      case CUPTI_ACTIVITY_KIND_RUNTIME:
      case CUPTI_ACTIVITY_KIND_DRIVER: {
        const auto& r = as<cupti::Api>(record);
        const auto domain =
            record.kind == CUPTI_ACTIVITY_KIND_RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
        add_host(HostActivity::Kind::call, call_name(domain, r.cbid), r.start, r.end, r.threadId, r.correlationId);
        break;
      }
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
        const auto& r = as<cupti::Synchronization>(record);
        if (const char* name = synchronization_name(r.type))
          add_host(HostActivity::Kind::synchronization, name, r.start, r.end, 0, r.correlationId);
        break;
      }
      case CUPTI_ACTIVITY_KIND_OVERHEAD: {
        const auto& r = as<cupti::Overhead>(record);
        add_host(HostActivity::Kind::overhead, "profiler overhead", r.start, r.end, 0, 0);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMORY2:
        add_memory(as<cupti::Memory>(record));
        break;
      default:
        break;  // correlations have been read; what a pool did is in its allocations
    }
  }

  // Work of the device that was lost or cannot be is counted, and left out where its time means nothing.
  template <class R>
  void add_work(const R& r, DeviceActivity::Kind kind, std::string name, std::uint64_t bytes) {
    Completeness& c = profile_.completeness;
    const Issuer issuer = issuer_of(r.correlationId);
    if (issuer.range == 0) ++c.unattributed;
    if (r.start == 0 || r.end == 0) {
      ++c.zero_timestamps;
      return;
    }
    DeviceActivity activity;
    activity.kind = kind;
    activity.name = std::move(name);
    activity.bytes = static_cast<std::int64_t>(bytes);
    activity.time = {relative(r.start), relative(r.end)};
    if (r.end < r.start || activity.time.begin < 0 || activity.time.end > in_.window.length()) {
      ++c.out_of_range;
      return;
    }
    activity.stream = r.streamId;
    activity.correlation = r.correlationId;
    activity.range = issuer.range;
    activity.work = activity.kind == DeviceActivity::Kind::kernel ? issuer.work : 0;
    profile_.device.push_back(std::move(activity));
  }

  // The host's own times explain, they do not measure: what is cut off by the window is cut off here.
  void add_host(HostActivity::Kind kind, std::string name, std::uint64_t start, std::uint64_t end, std::uint32_t thread,
                std::uint32_t correlation) {
    HostActivity activity;
    activity.kind = kind;
    activity.name = std::move(name);
    activity.time = {std::clamp<Nanoseconds>(relative(start), 0, in_.window.length()),
                     std::clamp<Nanoseconds>(relative(end), 0, in_.window.length())};
    if (start == 0 || end < start) return;
    activity.thread = thread;
    activity.correlation = correlation;
    activity.range = issuer_of(correlation).range;
    profile_.host.push_back(std::move(activity));
  }

  void add_memory(const cupti::Memory& r) {
    using Kind = MemoryActivity::Kind;
    const bool pinned = r.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    if (!pinned && r.memoryKind != CUPTI_ACTIVITY_MEMORY_KIND_DEVICE) return;
    const bool given = r.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    const Kind kind = pinned ? (given ? Kind::pinned_allocate : Kind::pinned_free)
                             : (given ? Kind::device_allocate : Kind::device_free);
    profile_.memory.push_back({kind, relative(r.timestamp), static_cast<std::int64_t>(r.bytes)});
  }

  Issuer issuer_of(std::uint32_t correlation) const {
    const auto it = issuers_.find(correlation);
    return it == issuers_.end() ? Issuer{} : it->second;
  }

  // A step begins when the host begins it, or when the work issued before it is done, and ends with its last work.
  void find_steps() {
    std::unordered_map<std::uint64_t, std::uint64_t> parents;
    for (const RangeSpan& range : profile_.ranges) parents[range.id] = range.parent;
    for (const RangeSpan& step : profile_.ranges) {
      if (step.name != kStepRange) continue;
      const auto within = [&](std::uint64_t range) {
        while (range != 0 && range != step.id) range = parents[range];
        return range == step.id;
      };
      Nanoseconds begin = step.host.begin, end = 0, first = in_.window.length();
      for (const DeviceActivity& a : profile_.device)
        if (within(a.range)) {
          first = std::min(first, a.time.begin);
          end = std::max(end, a.time.end);
        }
      for (const DeviceActivity& a : profile_.device)
        if (a.time.begin < first && a.time.end <= first && !within(a.range)) begin = std::max(begin, a.time.end);
      if (end > begin) profile_.steps.push_back({{begin, end}});
    }
  }

  const Recording& in_;
  std::unordered_map<std::uint32_t, Issuer> issuers_;
  Profile profile_;
};

}  // namespace

Profile decode(const Recording& recording) {
  return Decoder(recording).run();
}

}  // namespace spillway::profiler
