// decide_command.cpp - `spillway decide` and `spillway normalize`: what is made of records that exist.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "decision/budget_decision.h"
#include "decision/commands.h"
#include "decision/json_file.h"
#include "decision/normalize.h"
#include "decision/provenance.h"
#include "decision/record.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace fs = std::filesystem;

int decide(const DecideCommand& command) {
  check_budget_options(command.options);
  const nlohmann::ordered_json source = read_json(command.input);
  const BudgetDecision decision = decide_budget(source, command.input, command.options);
  const fs::path output = command.output.empty()
                              ? fs::path(command.input).parent_path() / "75_memory_budget_decision.json"
                              : fs::path(command.output);
  nlohmann::ordered_json record = budget_record(decision, source, file_identity(command.input), command.command_line);
  const fs::path sidecar = output.parent_path() / sidecar_name(output.filename().string());
  for (const fs::path& target : {output, sidecar})  // both, before either is written
    if (fs::exists(fs::symlink_status(target)))
      throw Error(fmt::format("{} exists: a record is never overwritten; choose another output", target.string()));
  write_exclusive(output, record);
  write_exclusive(sidecar, normalize(record, output.filename().string()));
  fmt::print("{}\n{}\nrecord: {}\n", command.input, budget_report(decision), output.string());
  return 0;
}

namespace {

void normalize_file(const fs::path& file, const std::string& output_dir) {
  const nlohmann::ordered_json sidecar = normalize(read_json(file), file.string());
  const fs::path target =
      (output_dir.empty() ? file.parent_path() : fs::path(output_dir)) / sidecar_name(file.filename().string());
  if (fs::exists(target)) {
    nlohmann::ordered_json there = read_json(target);
    if (!there.is_object()) there = nlohmann::ordered_json::object();
    there["legacy_source"] = sidecar["legacy_source"];  // the same record may be given by another path
    if (there != sidecar)
      throw Error(fmt::format("{} exists and says something else: a record is never overwritten", target.string()));
    fmt::print("{}: is there already\n", target.string());
    return;
  }
  write_exclusive(target, sidecar);
  fmt::print("{}\n", target.string());
}

}  // namespace

int normalize_files(const NormalizeCommand& command) {
  int status = 0;
  for (const std::string& file : command.files) {
    try {
      normalize_file(file, command.output_dir);
    } catch (const std::exception& error) {
      std::fflush(stdout);
      std::fputs(fmt::format("spillway: {}\n", one_line(error.what())).c_str(), stderr);
      status = 1;
    }
  }
  return status;
}

}  // namespace spillway::decision
