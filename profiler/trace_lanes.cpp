// trace_lanes.cpp - see trace_lanes.h.
#include "profiler/trace_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include "profiler/trace_text.h"

namespace spillway::profiler {
namespace {

// A record that ends before it begins is drawn without length.
Interval drawn(const Interval& time) {
  return {time.begin, std::max(time.begin, time.end)};
}

Slice slice_of(const RangeSpan& range) {
  Arguments more;
  if (range.layer >= 0) more.add("layer", range.layer);
  return {range.name, to_string(range.phase), drawn(range.host), more.text()};
}

Slice slice_of(const HostActivity& h) {
  constexpr std::array<const char*, 3> kCategories = {"call", "synchronization", "overhead"};
  Slice slice{h.name, kCategories[static_cast<std::size_t>(h.kind)], drawn(h.time),
              Arguments().add("correlation", h.correlation).text()};
  if (h.kind == HostActivity::Kind::call) slice.correlation = h.correlation;
  return slice;
}

Slice slice_of(const DeviceActivity& d, const Profile& profile,
               const std::unordered_map<std::uint64_t, const RangeSpan*>& ranges) {
  Arguments more;
  std::string name = d.name;
  if (d.work > 0 && d.work <= profile.works.size()) {
    const DeclaredWork& work = profile.works[d.work - 1];
    name = work.name;
    more.add("kernel", d.name).add("flops", work.flops).add("bytes", work.bytes);
  } else if (d.kind != DeviceActivity::Kind::kernel) {
    more.add("bytes", d.bytes);
  }
  if (const auto range = ranges.find(d.range); range != ranges.end())
    more.add("range", range->second->name).add("phase", to_string(range->second->phase));
  more.add("correlation", d.correlation);
  return {std::move(name), to_string(d.kind), drawn(d.time), more.text(), d.correlation};
}

void add_lanes(std::vector<Lane>& lanes, Lane::Process process, const std::string& name, std::vector<Slice> slices) {
  for (std::vector<Slice>& lane : nested(std::move(slices))) lanes.push_back({process, name, std::move(lane)});
}

void add_host(std::vector<Lane>& lanes, const Profile& profile) {
  struct Thread {
    std::vector<Slice> code, waits, overhead;
  };
  std::map<std::uint32_t, Thread> threads;
  for (const RangeSpan& range : profile.ranges) threads[range.thread].code.push_back(slice_of(range));
  for (const HostActivity& h : profile.host) {
    Thread& thread = threads[h.thread];
    (h.kind == HostActivity::Kind::call              ? thread.code
     : h.kind == HostActivity::Kind::synchronization ? thread.waits
                                                     : thread.overhead)
        .push_back(slice_of(h));
  }
  for (auto& [number, thread] : threads) {
    const std::string name = fmt::format("host thread {}", number);
    add_lanes(lanes, Lane::Process::host, name, std::move(thread.code));
    add_lanes(lanes, Lane::Process::host, name + ", waiting", std::move(thread.waits));
    add_lanes(lanes, Lane::Process::host, name + ", profiler", std::move(thread.overhead));
  }
}

void add_device(std::vector<Lane>& lanes, const Profile& profile) {
  std::vector<Slice> steps;
  for (const StepSpan& step : profile.steps)
    steps.push_back({fmt::format("step {}", steps.size() + 1), "step", drawn(step.time), "{}"});
  add_lanes(lanes, Lane::Process::device, "steps", std::move(steps));

  std::unordered_map<std::uint64_t, const RangeSpan*> ranges;
  for (const RangeSpan& range : profile.ranges) ranges.emplace(range.id, &range);
  std::map<std::uint32_t, std::vector<Slice>> streams;
  for (const DeviceActivity& d : profile.device) streams[d.stream].push_back(slice_of(d, profile, ranges));
  for (const StreamName& stream : profile.streams) {
    const auto found = streams.find(stream.stream);
    if (found == streams.end()) continue;
    add_lanes(lanes, Lane::Process::device, stream.name, std::move(found->second));
    streams.erase(found);
  }
  for (auto& [number, slices] : streams)
    add_lanes(lanes, Lane::Process::device, fmt::format("stream {}", number), std::move(slices));
}

}  // namespace

std::vector<std::vector<Slice>> nested(std::vector<Slice> slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.time.begin != b.time.begin ? a.time.begin < b.time.begin : a.time.end > b.time.end;
  });
  std::vector<std::vector<Slice>> lanes;
  while (!slices.empty()) {
    std::vector<Slice> lane, others;
    std::vector<Nanoseconds> open;  // ends of what holds the next slice, innermost last
    for (Slice& slice : slices) {
      while (!open.empty() && open.back() <= slice.time.begin) open.pop_back();
      const bool fits = open.empty() || slice.time.end <= open.back();
      if (fits) open.push_back(slice.time.end);
      (fits ? lane : others).push_back(std::move(slice));
    }
    lanes.push_back(std::move(lane));
    slices = std::move(others);
  }
  return lanes;
}

std::vector<Lane> lanes_of(const Profile& profile) {
  std::vector<Lane> lanes;
  add_host(lanes, profile);
  add_device(lanes, profile);
  return lanes;
}

}  // namespace spillway::profiler
