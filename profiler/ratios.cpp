// ratios.cpp - shares of the step's time: busy computing, busy copying, idle, and for whom the device waited.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "profiler/analysis_parts.h"
#include "profiler/intervals.h"

namespace spillway::profiler {
namespace {

// When the host had issued what the device began at some moment; asked of the moments at which idling ended.
class IssueTimes {
 public:
  explicit IssueTimes(const Profile& profile) {
    std::unordered_map<std::uint32_t, const HostActivity*> calls;
    for (const HostActivity& h : profile.host)
      if (h.kind == HostActivity::Kind::call) calls.emplace(h.correlation, &h);
    for (const DeviceActivity& d : profile.device) {
      if (d.time.length() == 0) continue;
      const auto call = calls.find(d.correlation);
      if (call == calls.end()) continue;
      const Nanoseconds issued = issue_time(d, call->second->time);
      const auto [known, added] = by_begin_.emplace(d.time.begin, issued);
      if (!added) known->second = std::min(known->second, issued);
    }
  }

  // Of the first issued of those that began at `begin`; nothing when no call of theirs was recorded.
  std::optional<Nanoseconds> of_work_that_began(Nanoseconds begin) const {
    const auto found = by_begin_.find(begin);
    if (found == by_begin_.end()) return std::nullopt;
    return found->second;
  }

 private:
  // A call that queues work has issued it when it returns: what the call itself costs, the device waits for the host.
  // A copy's call may last until the copy is over; that one had issued it from its beginning.
  static Nanoseconds issue_time(const DeviceActivity& work, const Interval& call) {
    const bool waited = is_transfer(work.kind) && call.end >= work.time.end;
    return waited ? call.begin : call.end;
  }
  std::unordered_map<Nanoseconds, Nanoseconds> by_begin_;
};

}  // namespace

Ratios ratios_of(const Profile& profile) {
  std::vector<Interval> kernel_times, copy_times;
  for (const DeviceActivity& d : profile.device) (is_transfer(d.kind) ? copy_times : kernel_times).push_back(d.time);
  const IntervalSet kernels(std::move(kernel_times)), copies(std::move(copy_times));
  const IntervalSet both = kernels & copies, busy = kernels | copies;
  const IssueTimes issued(profile);

  Nanoseconds total = 0, computing = 0, copying = 0, overlapped = 0, idle = 0, idle_host = 0;
  for (const StepSpan& step : profile.steps) {
    total += step.time.length();
    computing += kernels.clipped(step.time).length();
    copying += copies.clipped(step.time).length();
    overlapped += both.clipped(step.time).length();
    const IntervalSet gaps = IntervalSet({step.time}) - busy.clipped(step.time);
    idle += gaps.length();
    for (const Interval& gap : gaps.intervals()) {
      if (gap.end == step.time.end) continue;  // nothing more came
      if (const auto at = issued.of_work_that_began(gap.end))
        idle_host += Interval{gap.begin, std::min(*at, gap.end)}.length();
    }
  }

  const auto share = [&](Nanoseconds part) { return static_cast<double>(part) / static_cast<double>(total); };
  Ratios r;
  r.compute = share(computing);
  r.memory = share(copying);
  r.exposed_transfer = share(copying - overlapped);
  r.idle = share(idle);
  if (copying > 0) r.overlap = static_cast<double>(overlapped) / static_cast<double>(copying);
  r.idle_host = share(idle_host);
  r.idle_gap = share(idle - idle_host);
  return r;
}

}  // namespace spillway::profiler
