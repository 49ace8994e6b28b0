// run_record.h - the parts that the records of measuring experiments (73, 76, its boundary) have in common: what was
// run, on what, from which sources; and what was measured of one candidate, with exact bytes beside every figure in
// MiB.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "decision/measurement.h"

namespace spillway::decision {

// What is the same for every candidate of a run.
struct Run {
  WorkloadOptions workload;  // as resolved
  std::string model, tokens;
  DeviceInfo device;
};
Run describe(Workload& workload, const DeviceInfo& device);

// "single_gpu" or "host".
const char* evidence_level(const DeviceInfo& device);

// `config` of PROTOCOL.md without the numbers of steps: model, shape, dtype, optimizer, seed, device, versions, git
// commit, command.
nlohmann::ordered_json run_config(const Run& run, const std::string& command_line);
// Adds warmup, iters, repeats.
void add_steps(nlohmann::ordered_json& config, const Steps& steps);

// Everything measured of a candidate. PROTOCOL.md calls the peak `peak_mem` in 73 and `peak_memory` in 76: `peak_name`.
nlohmann::ordered_json measured_fields(const Measurement& m, const char* peak_name, const Steps& steps);

nlohmann::ordered_json text_or_null(const std::string& text);
nlohmann::ordered_json number_or_null(const std::optional<double>& value);
// The exact integer beside a figure in MiB. Exact: MiB of whole bytes are doubles without rounding up to 2^53 bytes.
nlohmann::ordered_json bytes_or_null(const std::optional<double>& mebibytes);

}  // namespace spillway::decision
