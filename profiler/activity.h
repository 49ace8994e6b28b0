// activity.h - a profile as plain data: what the device did and when, what the host asked for, which range of our own
// code each piece of work belongs to, and what of it all was lost. Everything else in this folder reads it. No CUDA
// here, so every analysis is tested without a device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway::profiler {

// Nanoseconds on one clock for host and device, from an origin of the profile's own.
using Nanoseconds = std::int64_t;

// Half-open: [begin, end).
struct Interval {
  Nanoseconds begin = 0, end = 0;
  Nanoseconds length() const { return end > begin ? end - begin : 0; }
};

// What a step consists of. `none`: outside of any.
enum class Phase : std::uint8_t { none, data, forward, recompute, backward, optimizer, offload, prefetch, evaluate };
const char* to_string(Phase phase);

// A stretch of host code that issued work. Ranges nest; ids are unique in a profile, from 1.
struct RangeSpan {
  std::uint64_t id = 0, parent = 0;  // parent 0: none
  Phase phase = Phase::none;
  int layer = -1;    // -1: of no layer
  std::string name;  // "layer 3 attention"
  Interval host;
  std::uint32_t thread = 0;
};

// Work of the device, on one stream.
struct DeviceActivity {
  enum class Kind : std::uint8_t {
    kernel,
    host_to_device,
    device_to_host,
    device_to_device,
    memset
  } kind = Kind::kernel;
  std::string name;  // of a kernel, demangled; else the kind
  Interval time;
  std::uint32_t stream = 0;       // as the device numbers it
  std::uint32_t correlation = 0;  // of the call that issued it
  std::uint64_t range = 0;        // the innermost range that issued it; 0: unattributed
  std::uint64_t work = 0;         // index + 1 into Profile::works; 0: none was declared
  std::int64_t bytes = 0;         // of a copy or memset
};
const char* to_string(DeviceActivity::Kind kind);

// A call of the host into the runtime, a wait of the host for the device, or the profiler's own overhead.
struct HostActivity {
  enum class Kind : std::uint8_t { call, synchronization, overhead } kind = Kind::call;
  std::string name;  // "cudaMemcpyAsync"
  Interval time;
  std::uint32_t thread = 0, correlation = 0;
  std::uint64_t range = 0;
};

// What a launch declared that it must do at least (kernels/work.h).
struct DeclaredWork {
  std::string name;
  std::int64_t flops = 0, bytes = 0;
};

// Device memory or pinned host memory, given out or taken back, as the runtime saw it.
struct MemoryActivity {
  enum class Kind : std::uint8_t { device_allocate, device_free, pinned_allocate, pinned_free } kind;
  Nanoseconds at = 0;
  std::int64_t bytes = 0;
};

// One step, from when the host began it, or the device had done what came before, to its last work on the device.
struct StepSpan {
  Interval time;
};

struct StreamName {
  std::uint32_t stream = 0;
  std::string name;  // "compute", "copy-out", "copy-in"
};

// Anything but zeros makes a profile incomplete.
struct Completeness {
  std::int64_t records = 0;          // decoded, of every kind
  std::int64_t dropped = 0;          // that the device had no buffer for
  std::int64_t zero_timestamps = 0;  // of work that never got its times
  std::int64_t out_of_range = 0;     // that end before they begin, or lie outside of the profile
  std::int64_t unattributed = 0;     // device work that no range issued
  bool complete() const { return dropped == 0 && zero_timestamps == 0 && out_of_range == 0 && unattributed == 0; }
};

struct Profile {
  std::string tool;                    // "CUPTI 13.0", "hostcuda"
  std::string unavailable;             // why there is no profile ("another profiler owns CUPTI"); "" when there is
  std::vector<DeviceActivity> device;  // by begin
  std::vector<HostActivity> host;      // by begin
  std::vector<MemoryActivity> memory;  // by time
  std::vector<RangeSpan> ranges;       // by begin
  std::vector<DeclaredWork> works;     // one a declaration, not one a name
  std::vector<StepSpan> steps;
  std::vector<StreamName> streams;
  Completeness completeness;
};

// The profile of one of its steps: the work that overlaps it, the calls and ranges that overlap it or issued that work
// (a host that is ahead has left them by then), and the whole profile's completeness.
// std::out_of_range when there is no such step.
Profile of_step(const Profile& profile, std::size_t step);

}  // namespace spillway::profiler
