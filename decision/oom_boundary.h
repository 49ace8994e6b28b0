// oom_boundary.h - the further mode of experiment 76: how long can a sequence be before each strategy runs out of
// memory? seq_len is doubled until a step does not fit, then the gap is halved down to a multiple of 64. Every probe is
// a run of its own, with a fresh allocator under the same cap, so that none disturbs the next.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decision/measurement.h"
#include "decision/run_record.h"

namespace spillway::decision {

inline constexpr std::int64_t kBoundaryStep = 64;  // of seq_len

struct BoundaryOptions {
  WorkloadOptions workload;  // its seq does not count
  std::vector<std::string> strategies;
  std::optional<double> memory_cap_mb;  // of reserved memory; default: what the device has
  // Turns computing off and on, where the device can keep books without computing (a host device): the search then
  // takes seconds, and asks for the same bytes. Empty: every probe trains.
  std::function<void(bool)> set_books_only;
  bool confirm = false;  // with books: afterwards train for real at each boundary and a step above it
};

// Two training steps at one seq_len: from the second on, all of the optimizer's states stand in memory.
struct Probe {
  std::int64_t seq = 0;
  bool fits = false;
  std::int64_t peak_bytes = 0, peak_reserved_bytes = 0;  // where it fits
  std::int64_t host_bytes = 0;                           // that it offloads to; no cap bounds them
  std::string error;                                     // where it does not
};

struct Boundary {
  std::string strategy;
  std::optional<Probe> largest, first_failing;  // absent: not even 64 tokens fit; the model has no more positions
  std::vector<Probe> probes;                    // in the order they ran
  std::optional<bool> confirmed;                // absent: not asked for, or nothing to confirm
};

// The search alone: `probe` says whether a seq_len fits. `positions` is the model's last seq_len.
Boundary find_boundary(const std::string& strategy, std::int64_t positions,
                       const std::function<Probe(std::int64_t seq)>& probe);

struct BoundaryRun {
  BoundaryOptions options;
  Run run;
  std::int64_t positions = 0;  // of the model
  double memory_cap_mb = 0;
  std::vector<Boundary> boundaries;
};
// Probes every strategy. Throws Interrupted.
BoundaryRun run_boundaries(const BoundaryOptions& options, const DeviceInfo& device, Workload& workload,
                           const Watcher& watcher);

// 76_*_oom_boundary.json.
nlohmann::ordered_json boundary_record(const BoundaryRun& run, const std::string& command_line);
std::string boundary_report(const BoundaryRun& run);

}  // namespace spillway::decision
