// trace_reading.cpp - see trace_reading.h.
#include "decision/report/trace_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "runtime/error.h"

namespace spillway::decision {
namespace {

constexpr double kHost = 1, kDevice = 2;  // processes of a trace

using Json = nlohmann::ordered_json;

double number(const Json& event, const char* key, const std::string& where) {
  const auto it = event.find(key);
  if (it == event.end() || !it->is_number() || !std::isfinite(it->get<double>()))
    throw Error(fmt::format("{}: no number {}", where, key));
  return it->get<double>();
}
std::string text(const Json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

struct Lanes {
  std::map<std::pair<double, double>, TraceLane> by_thread;  // process, thread
};

TraceSlice slice_of(const Json& event, const std::string& where) {
  TraceSlice s;
  s.name = text(event, "name");
  s.category = text(event, "cat");
  // A range's own category is its phase; work of the device names the phase of the range that issued it.
  const auto arguments = event.find("args");
  if (arguments != event.end()) s.phase = text(*arguments, "phase");
  s.begin = number(event, "ts", where);
  s.end = s.begin + std::max(0.0, number(event, "dur", where));
  return s;
}

Lanes read_lanes(const Node& events) {
  Lanes lanes;
  for (std::size_t i = 0; i < events.json().size(); ++i) {
    const Json& event = events.json()[i];
    const std::string kind = text(event, "ph");
    if (kind != "X" && kind != "M") continue;
    const std::string where = fmt::format("{}/{}", events.source(), i);
    const double process = number(event, "pid", where), thread = number(event, "tid", where);
    if (process != kHost && process != kDevice) continue;
    TraceLane& lane = lanes.by_thread[{process, thread}];
    lane.device = process == kDevice;
    if (kind == "X")
      lane.slices.push_back(slice_of(event, where));
    else if (text(event, "name") == "thread_name" && event.contains("args"))
      lane.name = text(event["args"], "name");
  }
  return lanes;
}

}  // namespace

StepTrace read_step(const Node& trace) {
  const Node events = trace["traceEvents"];
  if (!events.json().is_array()) throw Error(fmt::format("{}/traceEvents is no list", trace.source()));
  const Lanes lanes = read_lanes(events);

  std::vector<TraceStep> steps;
  for (const auto& [thread, lane] : lanes.by_thread)
    if (lane.device && lane.name == "steps")
      for (const TraceSlice& s : lane.slices) steps.push_back({s.name, s.begin, s.end});
  if (steps.empty()) throw Error(fmt::format("{}: no step stands in the trace", trace.source()));
  StepTrace result;
  result.steps = steps.size();
  std::stable_sort(steps.begin(), steps.end(),
                   [](const auto& a, const auto& b) { return a.end - a.begin < b.end - b.begin; });
  result.step = steps[(steps.size() - 1) / 2];

  for (const auto& [thread, lane] : lanes.by_thread) {
    if (lane.name == "steps") continue;
    TraceLane cut{lane.device, lane.name, {}};
    for (TraceSlice s : lane.slices) {
      if (s.end <= result.step.begin || s.begin >= result.step.end) continue;
      s.begin = std::max(s.begin, result.step.begin);
      s.end = std::min(s.end, result.step.end);
      cut.slices.push_back(std::move(s));
    }
    // What holds others before them, as profiler/trace.h writes them; a file is no promise.
    std::stable_sort(cut.slices.begin(), cut.slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    if (!cut.slices.empty()) result.lanes.push_back(std::move(cut));
  }
  return result;
}

}  // namespace spillway::decision
