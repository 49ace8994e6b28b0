// trace.cpp - see trace.h. Chrome's trace event format: M names lanes, X is a slice, s and f are an arrow's two ends, C
// is a counter's new value.
#include "profiler/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiler/trace_lanes.h"
#include "profiler/trace_text.h"

namespace spillway::profiler {
namespace {

constexpr int kMemoryProcess = 3;  // beside those of lanes

// Where everything begins.
Nanoseconds origin_of(const Profile& profile, const MemoryTimeline* memory) {
  constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds first = kNever;
  const auto see = [&](Nanoseconds at) { first = std::min(first, at); };
  for (const DeviceActivity& d : profile.device) see(d.time.begin);
  for (const HostActivity& h : profile.host) see(h.time.begin);
  for (const MemoryActivity& m : profile.memory) see(m.at);
  for (const RangeSpan& range : profile.ranges) see(range.host.begin);
  for (const StepSpan& step : profile.steps) see(step.time.begin);
  if (memory)
    for (const MemoryPoint& point : memory->points) see(point.at);
  return first == kNever ? 0 : first;
}

class Writer {
 public:
  explicit Writer(Nanoseconds origin) : origin_(origin) {}

  void metadata(int process, int thread, std::string_view what, const std::string& arguments) {
    event(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":{},"args":{}}})", process, thread, json_string(what),
                      arguments));
  }
  void slice(int process, int thread, const Slice& s) {
    event(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":{},"args":{}}})", process,
                      thread, at(s.time.begin), microseconds(s.time.length()), json_string(s.name),
                      json_string(s.category), s.arguments));
  }
  // `end`: s where the arrow begins, f where it ends; each binds to the slice that it lies in.
  void arrow(char end, int process, int thread, Nanoseconds time, std::size_t id) {
    event(fmt::format(R"({{"ph":"{}",{}"pid":{},"tid":{},"ts":{},"id":{},"name":"launch","cat":"launch"}})", end,
                      end == 'f' ? R"("bp":"e",)" : "", process, thread, at(time), id));
  }
  void counter(std::string_view name, Nanoseconds time, std::int64_t bytes) {
    event(fmt::format(R"({{"ph":"C","pid":{},"tid":0,"ts":{},"name":{},"args":{{"bytes":{}}}}})", kMemoryProcess,
                      at(time), json_string(name), bytes));
  }
  std::string text(const Profile& profile) const {
    const std::string about = Arguments().add("tool", profile.tool).add("unavailable", profile.unavailable).text();
    return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n", about, events_);
  }

 private:
  std::string at(Nanoseconds time) const { return microseconds(time - origin_); }
  void event(const std::string& text) {
    if (!events_.empty()) events_ += ",\n";
    events_ += text;
  }
  Nanoseconds origin_;
  std::string events_;
};

struct Place {
  int process, thread;
  Nanoseconds begin;
};

// The lanes, and arrows from calls to what they started. All slices come first: of events of one time a viewer takes
// the earlier in the file first, and an arrow binds to a slice that it has seen.
void write_lanes(Writer& writer, const std::vector<Lane>& lanes) {
  std::unordered_map<std::uint32_t, Place> calls;
  std::vector<std::pair<std::uint32_t, Place>> started;
  int thread = 0;  // of every lane another, because an extra lane has the name of the one that it is extra to
  for (const Lane& lane : lanes) {
    const int process = static_cast<int>(lane.process);
    ++thread;
    writer.metadata(process, thread, "thread_name", Arguments().add("name", lane.name).text());
    writer.metadata(process, thread, "thread_sort_index", Arguments().add("sort_index", thread).text());
    for (const Slice& slice : lane.slices) {
      writer.slice(process, thread, slice);
      if (slice.correlation == 0) continue;
      const Place place = {process, thread, slice.time.begin};
      if (lane.process == Lane::Process::host)
        calls.emplace(slice.correlation, place);
      else
        started.emplace_back(slice.correlation, place);
    }
  }
  std::size_t id = 0;
  for (const auto& [correlation, to] : started) {
    const auto call = calls.find(correlation);
    // Nothing starts before its call: clocks that disagree so far would draw an arrow backwards.
    if (call == calls.end() || to.begin < call->second.begin) continue;
    const Place& from = call->second;
    ++id;
    writer.arrow('s', from.process, from.thread, from.begin, id);
    writer.arrow('f', to.process, to.thread, to.begin, id);
  }
}

void write_pinned(Writer& writer, const std::vector<MemoryActivity>& memory) {
  using Kind = MemoryActivity::Kind;
  const auto change = [](const MemoryActivity& m) {
    return m.kind == Kind::pinned_allocate ? m.bytes : m.kind == Kind::pinned_free ? -m.bytes : 0;
  };
  std::int64_t sum = 0, least = 0;
  for (const MemoryActivity& m : memory) least = std::min(least, sum += change(m));
  std::int64_t pinned = -least;
  for (const MemoryActivity& m : memory) {
    if (m.kind != Kind::pinned_allocate && m.kind != Kind::pinned_free) continue;
    pinned += change(m);
    writer.counter("pinned", m.at, pinned);
  }
}

}  // namespace

std::string to_chrome_trace(const Profile& profile, const MemoryTimeline* memory) {
  Writer writer(origin_of(profile, memory));
  const auto process = [&](int id, const char* name) {
    writer.metadata(id, 0, "process_name", Arguments().add("name", name).text());
    writer.metadata(id, 0, "process_sort_index", Arguments().add("sort_index", id).text());
  };
  process(static_cast<int>(Lane::Process::host), "host");
  process(static_cast<int>(Lane::Process::device), "device");
  process(kMemoryProcess, "memory");
  write_lanes(writer, lanes_of(profile));
  if (memory)
    for (const MemoryPoint& point : memory->points) {
      writer.counter("allocated", point.at, point.allocated);
      writer.counter("reserved", point.at, point.reserved);
    }
  write_pinned(writer, profile.memory);
  return writer.text(profile);
}

}  // namespace spillway::profiler
