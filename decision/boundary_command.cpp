// boundary_command.cpp - `spillway oom-boundary`: the options checked, the search run, the boundaries recorded.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "decision/measuring.h"
#include "decision/record.h"

namespace spillway::decision {

int oom_boundary(BoundaryCommand command) {
  BoundaryOptions& o = command.boundary;
  if (o.strategies.empty()) o.strategies = default_strategies();
  check_strategies(o.strategies);
  if (o.memory_cap_mb && !(*o.memory_cap_mb > 0 && *o.memory_cap_mb < 1e9))
    throw Error(fmt::format("memory-cap-mb {}: more than 0 and less than 1e9 MiB", *o.memory_cap_mb));
  if (o.confirm && !o.set_books_only) throw Error("confirm: every probe trains already; it goes with --books-only");
  const DeviceInfo device = require_device();
  o.workload.seq = kBoundaryStep;
  Workload workload(o.workload, device);
  const std::string name = command.place.run.empty() ? default_run_name(command.place.results, device.is_host,
                                                                        workload.config().name, "oom-boundary")
                                                     : command.place.run;
  RunFolder folder(command.place.results, name);
  BoundaryRun result;
  record_run(folder, record_names(device).boundary_76, Sidecar::none, [&] {
    fmt::print("model {}: {:.1f} M parameters; batch {}, {}\n\n", workload.config().name,
               static_cast<double>(workload.config().parameters()) / 1e6, o.workload.batch, o.workload.dtype);
    std::fflush(stdout);
    Progress progress;
    result = run_boundaries(o, device, workload, watch(progress));
    return Measured{boundary_record(result, command.place.command_line), boundary_report(result)};
  });
  const bool refuted = std::any_of(result.boundaries.begin(), result.boundaries.end(),
                                   [](const Boundary& b) { return b.confirmed && !*b.confirmed; });
  return refuted ? 1 : 0;
}

}  // namespace spillway::decision
