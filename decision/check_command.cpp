// check_command.cpp - `spillway check` and `spillway chain`: the experiments one after another in one run folder, and
// the questions that the protocol asks of what they left.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "decision/check_run.h"
#include "decision/measuring.h"
#include "decision/normalize.h"
#include "decision/provenance.h"
#include "decision/record.h"

namespace spillway::decision {
namespace fs = std::filesystem;

int check_records(const CheckCommand& command) {
  const RunCheck run = check_run(command.folder);
  std::error_code ignored;
  const fs::path real = fs::canonical(command.folder, ignored);
  fmt::print("{}\n", ignored ? command.folder : fs::proximate(real, ignored).string());
  for (const RunCheck::File& file : run.files) fmt::print("  {:>10}  {}\n", file.bytes, one_line(file.name));
  for (const Answer& a : run.answers)
    fmt::print("{:<3}  {}  {}\n", a.yes ? "yes" : "no", a.question, one_line(a.reason));
  return run.all_hold() ? 0 : 1;
}

int chain(ChainCommand c) {
  BaselineCommand first;
  BenchCommand second;
  first.baseline.workload = c.workload;
  first.baseline.workload.seq = c.seq.value_or(kBaselineSeq);
  first.baseline.workload.seq_is_default = !c.seq;
  first.baseline.tuned = c.tuned;
  second.benchmark = c.benchmark;
  second.benchmark.workload = c.workload;
  second.benchmark.workload.seq = c.seq.value_or(kPressureSeq);
  second.benchmark.workload.seq_is_default = !c.seq;
  for (Steps* steps : {&first.baseline.steps, &second.benchmark.steps}) {
    steps->warmup = c.warmup.value_or(steps->warmup);
    steps->iters = c.iters.value_or(steps->iters);
    steps->repeats = c.repeats.value_or(steps->repeats);
    check_steps(*steps);
  }

  // Everything that can be refused is refused before the first experiment, not after it.
  check_benchmark(second.benchmark);
  const DeviceInfo device = require_device();
  const Variation variation = resolve_variation(first.baseline);
  const Workload tuned(variation.tuned.workload, device), workload(second.benchmark.workload, device);
  c.place.run = run_name(c.place, device, workload);
  first.place = second.place = c.place;
  RunFolder folder(c.place.results, c.place.run);
  const RecordNames names = record_names(device);
  for (const std::string& record : {names.training_73, names.benchmark_76, names.decision_75}) {
    folder.prepare(record);
    folder.prepare(sidecar_name(record));
  }
  folder.prepare(names.closeout_74);
  DecideCommand third;
  third.input = (folder.path() / names.benchmark_76).string();
  third.command_line = c.place.command_line;

  ProfileCommand last;
  last.folder = folder.path().string();
  last.model = second.benchmark.workload.model;
  last.data = second.benchmark.workload.data;
  last.command_line = c.place.command_line;
  Steps& steps = last.closeout.steps;
  steps = {c.warmup.value_or(steps.warmup), c.iters.value_or(steps.iters), c.repeats.value_or(steps.repeats)};

  // A stage whose record was written goes on to the next, also when what it measured ends in a complaint (an arm that
  // ran out of memory): the record says it too. One that wrote nothing ends the chain.
  int status = 0;
  const auto stage = [&](const char* what, const std::string& record, auto&& run) {
    fmt::print("== {}\n", what);
    try {
      status = std::max(status, run());
    } catch (const Interrupted&) {
      folder.discard_if_empty();
      throw;
    } catch (const std::exception& e) {
      folder.discard_if_empty();
      if (!fs::exists(folder.path() / record)) throw Error(fmt::format("{}: {}; {}", what, e.what(), folder.kept()));
      std::fputs(fmt::format("spillway: {}: {}\n", what, one_line(e.what())).c_str(), stderr);
      status = 1;
    }
    fmt::print("\n");
  };
  stage("73 training baseline", names.training_73, [&] { return baseline(first); });
  stage("76 strategy benchmark", names.benchmark_76, [&] { return bench(second); });
  stage("75 budget decision", names.decision_75, [&] { return decide(third); });
  stage("74 profiling close-out", names.closeout_74, [&] { return profile(last); });
  fmt::print("== check\n");
  check_records({folder.path().string()});
  return status;
}

}  // namespace spillway::decision
