// profiles.h - small profiles by hand, and random ones on a short line of integers, for tests.
#pragma once
#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "profiler/activity.h"

namespace spillway::test {

using namespace spillway::profiler;
using Work = DeviceActivity::Kind;

// In nanoseconds, like everything here unless it says milliseconds.
struct Builder {
  Profile profile;

  Builder& step(Nanoseconds begin, Nanoseconds end) {
    profile.steps.push_back({{begin, end}});
    return *this;
  }
  std::uint64_t range(Phase phase, Nanoseconds begin, Nanoseconds end, std::uint64_t parent = 0,
                      std::string name = "range", int layer = -1) {
    const std::uint64_t id = profile.ranges.size() + 1;
    profile.ranges.push_back({id, parent, phase, layer, std::move(name), {begin, end}, 1});
    return id;
  }
  DeviceActivity& work(Work kind, Nanoseconds begin, Nanoseconds end, std::uint64_t range = 0, std::uint32_t stream = 7,
                       std::string name = "work") {
    DeviceActivity d;
    d.kind = kind;
    d.name = std::move(name);
    d.time = {begin, end};
    d.range = range;
    d.stream = stream;
    return profile.device.emplace_back(std::move(d));
  }
  DeviceActivity& kernel(Nanoseconds begin, Nanoseconds end, std::uint64_t range = 0, std::uint32_t stream = 7) {
    return work(Work::kernel, begin, end, range, stream, "kernel");
  }
  // A kernel whose launch declared its work.
  DeviceActivity& declared(const std::string& name, Nanoseconds begin, Nanoseconds end, std::int64_t flops,
                           std::int64_t bytes) {
    profile.works.push_back({name, flops, bytes});
    DeviceActivity& d = kernel(begin, end);
    d.work = profile.works.size();
    return d;
  }
  HostActivity& call(const std::string& name, Nanoseconds begin, Nanoseconds end, std::uint32_t correlation = 0,
                     std::uint32_t thread = 1) {
    HostActivity h;
    h.name = name;
    h.time = {begin, end};
    h.thread = thread;
    h.correlation = correlation;
    return profile.host.emplace_back(std::move(h));
  }
  HostActivity& host(HostActivity::Kind kind, Nanoseconds begin, Nanoseconds end, std::uint32_t correlation = 0) {
    HostActivity& h = call(kind == HostActivity::Kind::overhead ? "buffer" : "stream", begin, end, correlation);
    h.kind = kind;
    return h;
  }
};

// Anything that may stand in a profile, on [0, `line`): two steps, works of every kind that overlap, begin together,
// reach over a step's ends or take no time, calls that are early, late, lasting or unknown, ranges in ranges.
inline Profile random_profile(std::mt19937& random, Nanoseconds line) {
  const auto below = [&](Nanoseconds n) { return static_cast<Nanoseconds>(random() % static_cast<std::uint64_t>(n)); };
  const auto interval = [&](Nanoseconds longest) {
    const Nanoseconds begin = below(line);
    return Interval{begin, std::min(line, begin + below(longest + 1))};
  };
  Builder b;
  const Nanoseconds middle = 1 + below(line - 2);
  b.step(below(middle), middle).step(middle + below(2), line - below(2));
  for (int i = 0; i < 6; ++i) {
    const std::uint64_t parent = random() % (b.profile.ranges.size() + 1);
    b.range(static_cast<Phase>(below(9)), 0, line, parent);
  }
  const int works = static_cast<int>(below(9));
  for (int i = 0; i < works; ++i) {
    const Interval time = interval(line / 4);
    DeviceActivity& d = b.work(static_cast<Work>(below(5)), time.begin, time.end, static_cast<std::uint64_t>(below(8)),
                               static_cast<std::uint32_t>(below(3)));
    d.correlation = static_cast<std::uint32_t>(i + 1);
    if (below(4) == 0) continue;
    const Interval call = interval(line / 3);
    b.call("cudaLaunchKernel", call.begin, call.end, d.correlation, static_cast<std::uint32_t>(below(2)));
  }
  const int calls = static_cast<int>(below(5));
  for (int i = 0; i < calls; ++i) {
    const Interval time = interval(line / 4);
    b.call(below(2) ? "cudaMalloc" : "cudaEventRecord", time.begin, time.end, 100 + static_cast<std::uint32_t>(i));
  }
  return b.profile;
}

}  // namespace spillway::test
