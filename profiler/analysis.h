// analysis.h - from a profile to numbers: where a step's time went. Everything is interval arithmetic on half-open
// intervals clipped to the step: two streams that are both busy are busy once. A copy is one between host and device;
// what stays within the device's memory (a copy there, a memset) counts with the kernels, which it competes with.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/activity.h"

namespace spillway::profiler {

// What this device can do at best, measured once; absent where it was not.
struct Ceilings {
  std::optional<double> tflops, memory_gbs, host_to_device_gbs, device_to_host_gbs;
};

// Kernels that begin in a step, all steps together.
struct Operator {
  std::string name;                   // as declared at the launch, else the kernel's
  std::int64_t calls = 0;             // launches: kernels that share one declaration are one
  double total_ms = 0;                // summed over kernels, whether or not others ran at the same time
  double share = 0;                   // of all device time of kernels
  std::int64_t flops = 0, bytes = 0;  // declared, over all calls; 0: none
  std::optional<double> achieved_tflops, achieved_gbs;
};

// Shares of the step's time, over all its steps. The first three are inclusive: of the time in which a kernel ran, in
// which a copy ran, in which devices talked. The others partition: compute + exposed_transfer + idle = 1.
struct Ratios {
  double compute = 0, memory = 0;
  std::optional<double> communication;  // absent on one device
  double exposed_transfer = 0;          // a copy ran and no kernel did
  double idle = 0;                      // nothing ran
  std::optional<double> overlap;        // of the time in which a copy ran, the share in which a kernel ran too
  double idle_host = 0;                 // part of idle: the host had not issued what ran next
  double idle_gap = 0;                  // the other part: it had, or nothing more came, or no record tells
};

// A step's time, split without overlap; sums to the step. Milliseconds, means over the steps.
// Where several things happen at once the first of them in this order counts: optimizer, recompute, compute, copy out,
// copy in, allocation.
struct StepSplit {
  double step_ms = 0;
  double compute_ms = 0;  // kernels of no range of the next two phases: forward and backward
  double recompute_ms = 0;
  double optimizer_ms = 0;
  double exposed_copy_out_ms = 0, exposed_copy_in_ms = 0;  // a copy ran and no kernel did
  double allocation_ms = 0;  // nothing ran while the host allocated or freed device or pinned memory
  double idle_ms = 0;        // nothing ran, and not for that
};

struct Analysis {
  std::int64_t steps = 0;
  Ratios ratios;
  StepSplit split;
  std::vector<Operator> operators;  // by total time, descending
};
// Over profile.steps; std::invalid_argument when there is none, or none that took time.
Analysis analyze(const Profile& profile);

// ---- the bottleneck: first rule that matches ------------------------------------------------------------------------

// All of them above 0.
struct BottleneckThresholds {
  double reserved_share = 0.9;   // capacity: of the device's memory; any OOM or retry of the allocator meets it too
  double exposed = 0.2;          // transfer: of the step, and more than idle
  double idle = 0.2;             // launch: of the step, ...
  double idle_host_share = 0.5;  // ... at least half of it waiting for the host
  double roofline_share = 0.6;   // latency: below this of both ceilings, weighted by time
  double balanced_margin = 0.1;  // compute or memory bandwidth must lead the other's share of its ceiling by this
};
struct BottleneckInput {
  Analysis analysis;
  Ceilings ceilings;
  std::int64_t ooms = 0, allocator_retries = 0, reserved_bytes = 0, capacity_bytes = 0;  // capacity 0: not known
};
struct Bottleneck {
  // capacity, transfer, launch, latency, compute, memory_bandwidth, balanced; undetermined when none of the first three
  // is met and the roofline lacks a ceiling or launches that declared their work: the evidence says which.
  std::string category;
  std::string evidence;                       // one sentence that names the numbers
  std::string optimization;                   // what to change
  std::optional<double> predicted_saving_ms;  // by how much that should shorten a step
  std::string runner_up;                      // the rule that came closest after it; "" when none did
  // By how much the rule was met, as a share of its threshold; where it has several, of the one that was met most
  // narrowly.
  double margin = 0;
};
// std::invalid_argument: a threshold that is not above 0.
Bottleneck find_bottleneck(const BottleneckInput& input, const BottleneckThresholds& thresholds = {});

}  // namespace spillway::profiler
