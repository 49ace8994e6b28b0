// baseline_command.cpp - `spillway baseline`: both arms are checked before anything is allocated, then measured in
// turns.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "decision/measuring.h"
#include "decision/record.h"
#include "model/head.h"

namespace spillway::decision {

int baseline(BaselineCommand command) {
  BaselineOptions& o = command.baseline;
  check_steps(o.steps);
  const DeviceInfo device = require_device();
  const bool chosen = o.workload.model.empty();
  const Variation variation = resolve_variation(o);
  for (const Arm& arm : {variation.baseline, variation.tuned}) check_strategies({arm.strategy});
  Workload base(variation.baseline.workload, device), tuned(variation.tuned.workload, device);
  if (variation.variable == "lmhead-chunk") {
    const auto chunk = [](const Workload& w) {
      const WorkloadOptions& o = w.options();
      return model::resolve_lmhead_chunk(o.lmhead_chunk, o.batch * o.seq, w.config().vocab);
    };
    if (chunk(base) == chunk(tuned))
      throw Error(fmt::format("tuned lmhead-chunk={}: both arms would take {} tokens at a time", variation.tuned_value,
                              chunk(base)));
  }
  RunFolder folder(command.place.results, run_name(command.place, device, base));
  TrainingBaseline result;
  record_run(folder, record_names(device).training_73, Sidecar::v1, [&] {
    print_workload(base, device, chosen, o.steps);
    Progress progress;
    result = run_baseline(o, variation, device, base, tuned, watch(progress));
    return Measured{baseline_record(result, command.place.command_line), baseline_report(result)};
  });
  if (!result.summary) throw Error("an arm could not be measured; its row says why");
  return 0;
}

}  // namespace spillway::decision
