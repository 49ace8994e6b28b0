// closeout_measuring.cpp - the measuring half of experiment 74. Behind every unprofiled step of a candidate comes a
// profiled one, in the same run, so that a machine that slows down for a moment slows both: the times of the former,
// the reasons of the latter. The candidates take turns, a repeat each.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "decision/profiling_closeout.h"
#include "profiler/ceilings.h"
#include "profiler/recorder.h"
#include "runtime/memory/caching_allocator.h"

namespace spillway::decision {
namespace {

using profiler::Profile;

struct ProfiledStep {
  double step_ms = 0;  // by events
  Profile profile;
  profiler::MemoryTimeline memory;
};

// Everything is kept: which step is the one with the median time shows only after the last.
class Profiling final : public Companion {
 public:
  Profiling(memory::Allocator& allocator, const Tokens& tokens, int repeat, Measurement& m,
            std::vector<ProfiledStep>& steps)
      : memory_(allocator), tokens_(tokens), repeat_(repeat), m_(m), steps_(steps) {}

  void before_measuring() override { memory_.pause(); }
  void after_step(model::Trainer& trainer) override {
    profiler::Recorder recorder;
    for (const auto& [stream, name] : trainer.streams()) recorder.name_stream(stream, name);
    memory_.begin(recorder.clock());
    const model::StepResult step = trainer.step(tokens_.training);
    m_.samples.push_back({repeat_, step.step_ms, step.loss});
    Profile profile = recorder.stop();
    steps_.push_back({step.step_ms, std::move(profile), memory_.end()});
  }

 private:
  profiler::MemoryRecorder memory_;
  const Tokens& tokens_;
  int repeat_;
  Measurement& m_;
  std::vector<ProfiledStep>& steps_;
};

void add(profiler::Completeness& sum, const profiler::Completeness& c) {
  sum.records += c.records;
  sum.dropped += c.dropped;
  sum.zero_timestamps += c.zero_timestamps;
  sum.out_of_range += c.out_of_range;
  sum.unattributed += c.unattributed;
}

// The profiled step with the (lower) median time.
void take_median_step(const std::vector<ProfiledStep>& steps, ProfiledCandidate& c) {
  std::vector<const ProfiledStep*> by_time;
  for (const ProfiledStep& s : steps) by_time.push_back(&s);
  std::sort(by_time.begin(), by_time.end(), [](const auto* a, const auto* b) { return a->step_ms < b->step_ms; });
  const ProfiledStep& median = *by_time[(by_time.size() - 1) / 2];
  if (median.profile.steps.empty()) return;  // no work of it was recorded
  c.step = profiler::of_step(median.profile, 0);
  c.step->completeness = c.completeness;
  c.memory = median.memory;
  c.step_events_ms = median.step_ms;
  c.analysis = profiler::analyze(*c.step);
}

bool same_losses(const std::vector<Sample>& a, const std::vector<Sample>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Sample& x, const Sample& y) { return same_bits(x.loss, y.loss); });
}

// Of both candidates, in every step, profiled or not, and in the evaluation behind them.
bool losses_equal(const ProfiledCandidate& a, const ProfiledCandidate& b) {
  return a.measured.losses_agree && b.measured.losses_agree &&
         same_bits(*a.measured.eval_loss, *b.measured.eval_loss) &&
         same_losses(a.measured.samples, b.measured.samples) && same_losses(a.profiled.samples, b.profiled.samples);
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

  std::vector<ProfiledStep> steps[2];
  const auto orders = balanced_order(2, options.steps.repeats, workload.options().seed);
  for (int repeat = 0; repeat < options.steps.repeats; ++repeat)
    for (const int i : orders[static_cast<std::size_t>(repeat)]) {
      Measurement& m = both[i]->measured;
      measure(workload, tokens, options.steps, repeat, m, watcher, [&](memory::Allocator& allocator) {
        return std::make_unique<Profiling>(allocator, tokens, repeat, both[i]->profiled, steps[i]);
      });
      if (m.status == "oom") throw Error(fmt::format("{} ({}): {}", m.name, m.strategy, m.error));
    }
  for (const std::string& strategy : strategies)
    c.timelines.push_back({strategy, record_memory(workload, tokens, strategy, watcher)});
  watcher.progress("");

  for (int i = 0; i < 2; ++i) {
    ProfiledCandidate& p = *both[i];
    judge(p.measured);
    if (p.measured.status != "ok") throw Error(fmt::format("{}: {}", p.measured.name, p.measured.error));
    for (const ProfiledStep& s : steps[i]) {
      add(p.completeness, s.profile.completeness);
      p.tool = s.profile.tool;
      if (p.unavailable.empty()) p.unavailable = s.profile.unavailable;
    }
    if (p.unavailable.empty()) take_median_step(steps[i], p);
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
  f.loss_equal = losses_equal(c.baseline, c.tuned);
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
