// closeout_measuring.cpp - the measuring half of experiment 74. The candidates take turns, and each unprofiled repeat is
// followed at once by the profiled one that is to explain it, so that a machine that slows down slows both; times come
// from the unprofiled ones alone.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "decision/profiling_closeout.h"
#include "profiler/ceilings.h"
#include "profiler/recorder.h"

namespace spillway::decision {
namespace {

using profiler::Profile;

// A profiled step, in the repeat that it is of.
struct ProfiledStep {
  double step_ms = 0;  // by events
  int repeat = 0;
  std::size_t index = 0;
};

// A repeat as measure() runs it, but for the recorder around its measured steps. Everything of it is kept: which step
// is the one with the median time shows only after the last.
struct ProfiledRepeat {
  Profile profile;
  profiler::MemoryTimeline memory;
};

ProfiledRepeat profile_repeat(const Workload& workload, const Tokens& tokens, const Steps& steps, int repeat,
                              Measurement& m, const Watcher& watcher) {
  memory::CudaDeviceMemory device;
  memory::CachingAllocator allocator(device);
  profiler::MemoryRecorder memory(allocator);
  auto trainer = workload.trainer(m.strategy, allocator);
  const auto show = [&](const char* what, int done, int all) {
    if (watcher.stop()) throw Interrupted("interrupted");
    watcher.progress(
        fmt::format("repeat {}/{}  {}, profiled  {} {}/{}", repeat + 1, steps.repeats, m.name, what, done, all));
  };
  for (int i = 0; i < steps.warmup; ++i) {
    show("warm-up", i + 1, steps.warmup);
    trainer->step(tokens.training);
  }
  ProfiledRepeat result;
  profiler::Recorder recorder;
  for (const auto& [stream, name] : trainer->streams()) recorder.name_stream(stream, name);
  memory.begin(recorder.clock());
  for (int i = 0; i < steps.iters; ++i) {
    show("step", i + 1, steps.iters);
    const model::StepResult step = trainer->step(tokens.training);
    m.samples.push_back({repeat, step.step_ms, step.loss});
  }
  result.profile = recorder.stop();
  result.memory = memory.end();
  return result;
}

void add(profiler::Completeness& sum, const profiler::Completeness& c) {
  sum.records += c.records;
  sum.dropped += c.dropped;
  sum.zero_timestamps += c.zero_timestamps;
  sum.out_of_range += c.out_of_range;
  sum.unattributed += c.unattributed;
}

// The profiled step with the (lower) median time, cut out of its repeat.
void take_median_step(const std::vector<ProfiledRepeat>& repeats, int iters, ProfiledCandidate& c) {
  std::vector<ProfiledStep> steps;
  for (std::size_t i = 0; i < c.profiled.samples.size(); ++i) {
    const Sample& s = c.profiled.samples[i];
    steps.push_back({s.step_time_ms, s.repeat, i % static_cast<std::size_t>(iters)});
  }
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.step_ms < b.step_ms; });
  const ProfiledStep& median = steps[(steps.size() - 1) / 2];
  const ProfiledRepeat& repeat = repeats[static_cast<std::size_t>(median.repeat)];
  // A step of which no work was recorded has no span; then there is no telling which is which.
  if (repeat.profile.steps.size() != static_cast<std::size_t>(iters)) return;
  c.step = profiler::of_step(repeat.profile, median.index);
  c.step->completeness = c.completeness;
  c.memory = repeat.memory;
  c.step_events_ms = median.step_ms;
  c.analysis = profiler::analyze(*c.step);
}

bool losses_equal(const Measurement& a, const Measurement& b) {
  if (!a.losses_agree || !b.losses_agree || !same_bits(*a.eval_loss, *b.eval_loss)) return false;
  return std::equal(a.samples.begin(), a.samples.end(), b.samples.begin(), b.samples.end(),
                    [](const Sample& x, const Sample& y) { return same_bits(x.loss, y.loss); });
}

// What was profiled is what was measured: the same losses after the same steps.
bool profile_is_of(const ProfiledCandidate& c) {
  return std::equal(c.measured.samples.begin(), c.measured.samples.end(), c.profiled.samples.begin(),
                    c.profiled.samples.end(),
                    [](const Sample& x, const Sample& y) { return same_bits(x.loss, y.loss); });
}

profiler::CeilingType ceiling_type(const std::string& dtype) {
  if (dtype == "bfloat16") return profiler::CeilingType::bfloat16;
  return dtype == "tf32" ? profiler::CeilingType::tf32 : profiler::CeilingType::float32;
}

// A step after the first, when gradients and states have come and nothing is new.
profiler::MemoryTimeline record_memory(const Workload& workload, const Tokens& tokens, const std::string& strategy,
                                       const Watcher& watcher) {
  watcher.progress(fmt::format("memory timeline  {}", strategy));
  if (watcher.stop()) throw Interrupted("interrupted");
  memory::CudaDeviceMemory device;
  memory::CachingAllocator allocator(device);
  profiler::MemoryRecorder recorder(allocator);
  auto trainer = workload.trainer(strategy, allocator);
  trainer->step(tokens.training);
  const auto origin = std::chrono::steady_clock::now();
  recorder.begin([origin] { return std::chrono::nanoseconds(std::chrono::steady_clock::now() - origin).count(); });
  trainer->step(tokens.training);
  return recorder.end();
}

}  // namespace

Closeout run_closeout(const CloseoutOptions& options, const TunedChoice& choice,
                      const std::vector<std::string>& strategies, const DeviceInfo& device, Workload& workload,
                      const Watcher& watcher) {
  Closeout c;
  c.options = options;
  c.run = describe(workload, device);
  c.choice = choice;
  ProfiledCandidate* both[] = {&c.baseline, &c.tuned};
  for (ProfiledCandidate* p : both) {
    p->measured.name = p == &c.baseline ? "baseline" : "tuned";
    p->measured.strategy = p == &c.baseline ? "baseline" : choice.name;
    p->profiled.name = p->measured.name;
    p->profiled.strategy = p->measured.strategy;
  }
  const Tokens tokens(workload);
  watcher.progress("ceilings");
  c.ceilings = profiler::measure_ceilings(ceiling_type(workload.options().dtype));

  std::vector<ProfiledRepeat> repeats[2];
  const auto orders = balanced_order(2, options.steps.repeats, workload.options().seed);
  for (int repeat = 0; repeat < options.steps.repeats; ++repeat) {
    for (const int i : orders[static_cast<std::size_t>(repeat)]) {
      Measurement& m = both[i]->measured;
      measure(workload, tokens, options.steps, repeat, m, watcher);
      if (m.status == "oom") throw Error(fmt::format("{} ({}): {}", m.name, m.strategy, m.error));
      repeats[i].push_back(profile_repeat(workload, tokens, options.steps, repeat, both[i]->profiled, watcher));
    }
  }
  for (const std::string& strategy : strategies)
    c.timelines.push_back({strategy, record_memory(workload, tokens, strategy, watcher)});
  watcher.progress("");

  for (int i = 0; i < 2; ++i) {
    ProfiledCandidate& p = *both[i];
    judge(p.measured);
    if (p.measured.status != "ok") throw Error(fmt::format("{}: {}", p.measured.name, p.measured.error));
    for (const ProfiledRepeat& r : repeats[i]) {
      add(p.completeness, r.profile.completeness);
      p.tool = r.profile.tool;
      if (p.unavailable.empty()) p.unavailable = r.profile.unavailable;
    }
    if (p.unavailable.empty()) take_median_step(repeats[i], options.steps.iters, p);
    if (!p.analysis) continue;
    profiler::BottleneckInput input;
    input.analysis = *p.analysis;
    input.ceilings = c.ceilings;
    input.allocator_retries = p.measured.allocator_retries;
    input.reserved_bytes = p.measured.peak_reserved_bytes;
    input.capacity_bytes = device.memory_bytes;
    p.bottleneck = profiler::find_bottleneck(input, options.bottleneck);
  }

  const Measurement &base = c.baseline.measured, &tuned = c.tuned.measured;
  c.measured_difference_ms = median_step_ms(tuned) - median_step_ms(base);
  c.noise_ms = noise_of_difference(step_times(base), step_times(tuned));
  CloseoutFigures& f = c.figures;
  f.profiled = c.baseline.analysis && c.tuned.analysis;
  f.profile_complete = f.profiled && c.baseline.completeness.complete() && c.tuned.completeness.complete();
  f.loss_equal = losses_equal(base, tuned) && profile_is_of(c.baseline) && profile_is_of(c.tuned);
  f.time_delta_ms = -c.measured_difference_ms;
  f.samples_per_s_delta = samples_per_s(tuned) - samples_per_s(base);
  f.memory_delta_bytes = static_cast<double>(base.peak_bytes - tuned.peak_bytes);
  f.accepted_by_75 = choice.accepted_by_75;
  if (f.profiled) {
    c.profiled_difference_ms = c.tuned.analysis->split.step_ms - c.baseline.analysis->split.step_ms;
    f.explained = explains(c.measured_difference_ms, c.profiled_difference_ms, c.noise_ms, options.thresholds);
  }
  c.decision = decide_closeout(f, options.thresholds);
  return c;
}

}  // namespace spillway::decision
