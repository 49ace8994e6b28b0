// split.cpp - a step's time in parts that sum to it: each moment belongs to the first of an ordered list of things that
// happened then.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "profiler/analysis_parts.h"
#include "profiler/intervals.h"

namespace spillway::profiler {
namespace {

enum Part : std::size_t { optimizer, recompute, compute, copy_out, copy_in, allocation, kParts };

// What kernels of a range count as. Blocks run their forward again to recompute, so a forward inside of a recompute is
// recompute: the nearest range around that says one of the two decides.
class RangeParts {
 public:
  explicit RangeParts(const std::vector<RangeSpan>& ranges) {
    std::unordered_map<std::uint64_t, const RangeSpan*> by_id;
    for (const RangeSpan& range : ranges) by_id.emplace(range.id, &range);
    for (const RangeSpan& range : ranges) {
      const RangeSpan* at = &range;
      // Bounded, should a broken profile have a range inside of itself.
      for (std::size_t depth = 0; at && part_of(at->phase) == compute && depth < ranges.size(); ++depth) {
        const auto parent = by_id.find(at->parent);
        at = parent == by_id.end() ? nullptr : parent->second;
      }
      parts_.emplace(range.id, at ? part_of(at->phase) : compute);
    }
  }
  Part of(std::uint64_t range) const {
    const auto found = parts_.find(range);
    return found == parts_.end() ? compute : found->second;
  }

 private:
  static Part part_of(Phase phase) {
    return phase == Phase::optimizer ? optimizer : phase == Phase::recompute ? recompute : compute;
  }
  std::unordered_map<std::uint64_t, Part> parts_;
};

// By prefix: CUPTI appends the version in which a call appeared (cudaMalloc_v3020), and cudaMalloc3D allocates too.
bool allocates(const HostActivity& h) {
  constexpr std::array<std::string_view, 5> kCalls = {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister",
                                                      "cudaHostUnregister"};
  return h.kind == HostActivity::Kind::call &&
         std::any_of(kCalls.begin(), kCalls.end(), [&](std::string_view call) { return h.name.starts_with(call); });
}

// Every part's times, made disjoint.
std::array<IntervalSet, kParts> parts_of(const Profile& profile) {
  const RangeParts range_parts(profile.ranges);
  std::array<std::vector<Interval>, kParts> times;
  for (const DeviceActivity& d : profile.device) {
    const Part part = d.kind == DeviceActivity::Kind::device_to_host   ? copy_out
                      : d.kind == DeviceActivity::Kind::host_to_device ? copy_in
                                                                       : range_parts.of(d.range);
    times[part].push_back(d.time);
  }
  for (const HostActivity& h : profile.host)
    if (allocates(h)) times[allocation].push_back(h.time);

  std::array<IntervalSet, kParts> parts;
  IntervalSet taken;
  for (std::size_t part = 0; part < kParts; ++part) {
    const IntervalSet all(std::move(times[part]));
    parts[part] = all - taken;
    taken = taken | all;
  }
  return parts;
}

}  // namespace

StepSplit split_of(const Profile& profile) {
  const std::array<IntervalSet, kParts> parts = parts_of(profile);
  std::array<Nanoseconds, kParts> sums{};
  Nanoseconds total = 0, idle = 0;
  for (const StepSpan& step : profile.steps) {
    total += step.time.length();
    idle += step.time.length();
    for (std::size_t part = 0; part < kParts; ++part) {
      const Nanoseconds length = parts[part].clipped(step.time).length();
      sums[part] += length;
      idle -= length;
    }
  }
  const auto mean = [&](Nanoseconds sum) { return to_ms(sum) / static_cast<double>(profile.steps.size()); };
  return {mean(total),          mean(sums[compute]), mean(sums[recompute]),  mean(sums[optimizer]),
          mean(sums[copy_out]), mean(sums[copy_in]), mean(sums[allocation]), mean(idle)};
}

}  // namespace spillway::profiler
