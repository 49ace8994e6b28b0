// explain_command.cpp - `spillway explain`: a plan as a table (tensor by placement), its schedule, and what the checker
// says of it. Pure arithmetic: no device memory is asked for.
#include <fmt/format.h>

#include <cstdio>

#include "decision/commands.h"
#include "decision/table.h"
#include "model/saved_tensors.h"
#include "runtime/activation/schedule_check.h"

namespace spillway::decision {
namespace {
using activation::LayerSpec;
using activation::Placement;
using activation::Plan;

std::string in_mib(std::int64_t bytes) {
  return fmt::format("{:.2f}", mib(bytes));
}

// Runs of neighbouring layers whose tensors are placed alike: [first, last].
std::vector<std::pair<int, int>> layer_groups(const Plan& plan) {
  std::vector<std::pair<int, int>> groups;
  for (int l = 0; l < plan.layers(); ++l) {
    const auto i = static_cast<std::size_t>(l);
    if (l > 0 && plan.placements[i] == plan.placements[i - 1])
      groups.back().second = l;
    else
      groups.emplace_back(l, l);
  }
  return groups;
}

std::string plan_table(const Plan& plan, const LayerSpec& spec) {
  const auto groups = layer_groups(plan);
  std::vector<std::string> head = {"tensor", "shape", "MiB/layer"};
  for (const auto& [first, last] : groups)
    head.push_back(first == last ? fmt::format("layer {}", first) : fmt::format("layers {}-{}", first, last));
  head.insert(head.end(), {"kept MiB", "moved MiB", "made again MiB"});
  Table table(head);
  const int tensors = static_cast<int>(spec.tensors.size());
  for (int t = 0; t < tensors; ++t) {
    const auto& tensor = spec.tensors[static_cast<std::size_t>(t)];
    std::vector<std::string> row = {tensor.name, tensor.shape, in_mib(tensor.bytes)};
    for (const auto& group : groups) row.emplace_back(activation::to_string(plan.at(group.first, t)));
    std::int64_t kept = 0, moved = 0, recomputed = 0;
    for (int l = 0; l < plan.layers(); ++l) {
      if (plan.at(l, t) == Placement::keep) kept += tensor.bytes;
      if (plan.at(l, t) == Placement::offload) moved += 2 * tensor.bytes;  // out and back
      if (plan.at(l, t) == Placement::recompute) recomputed += tensor.bytes;
    }
    for (std::int64_t bytes : {kept, moved, recomputed}) row.push_back(bytes ? in_mib(bytes) : "-");
    table.row(row);
  }
  return table.text();
}

std::string recompute_table(const Plan& plan, const LayerSpec& spec) {
  std::vector<int> runs(spec.forward.size(), 0);
  for (int l = 0; l < plan.layers(); ++l)
    for (int op : activation::recomputed_operators(plan, spec, l)) ++runs[static_cast<std::size_t>(op)];
  Table table({"operator run again", "times", "GFLOP each", "GFLOP in all"});
  bool any = false;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i] == 0) continue;
    any = true;
    const double gflop = static_cast<double>(spec.forward[i].flops) / 1e9;
    table.row({spec.forward[i].name, std::to_string(runs[i]), fmt::format("{:.3f}", gflop),
               fmt::format("{:.3f}", gflop * runs[i])});
  }
  return any ? table.text() : "nothing is run again\n";
}

}  // namespace

int explain(const ExplainCommand& command) {
  const DeviceInfo device = require_device();
  WorkloadOptions options;
  options.model = command.model;
  options.seq = command.seq;
  options.seq_is_default = command.seq_is_default;
  options.batch = command.batch;
  options.dtype = command.dtype;
  const Workload workload(options, device);
  const model::Config& config = workload.config();
  const LayerSpec spec = model::layer_spec(config, command.batch, workload.options().seq,
                                           model::activation_bytes(model::parse_precision(workload.options().dtype)));
  const int layers = static_cast<int>(config.layers);
  const Plan plan = activation::make_plan(command.strategy, spec, layers);
  const activation::Schedule schedule = activation::training_schedule(plan, spec);
  const activation::ScheduleReport report = activation::check_schedule(schedule, spec);
  const activation::PlanTotals totals = activation::totals(plan, spec);

  fmt::print("plan {} for {}: {} layers, batch {}, seq {}, {}\n\n{}\n{}\n", plan.name, config.name, layers,
             command.batch, workload.options().seq, workload.options().dtype, plan_table(plan, spec),
             recompute_table(plan, spec));
  fmt::print(
      "a step keeps {} MiB of saved tensors on the device, moves {} MiB out and {} MiB back, and runs {:.3f} GFLOP "
      "again\n\n",
      in_mib(totals.kept_bytes), in_mib(report.offload_bytes), in_mib(report.prefetch_bytes),
      static_cast<double>(report.recompute_flops) / 1e9);

  fmt::print("schedule: {} actions, {} events\n", schedule.actions.size(), schedule.events);
  bool elided = false;
  for (const activation::Action& action : schedule.actions) {
    // The first, second and last layer show everything that happens; those between are alike.
    const bool show = command.full || action.layer < 2 || action.layer >= layers - 1;
    if (show) fmt::print("  {}\n", activation::format_action(action, spec));
    if (!show && !elided) fmt::print("  ...\n");
    elided = !show;
  }
  if (!report.ok()) {
    fmt::print("\nthe checker found {} problems:\n", report.problems.size());
    for (const std::string& problem : report.problems) fmt::print("  {}\n", problem);
    return 1;
  }
  fmt::print(
      "\nchecked: no race, no use outside a lifetime, nothing left behind; saved tensors peak at {} MiB\n"
      "(bench's activation peak is a little above: it counts the allocator's blocks, rounded up, that hold them)\n",
      in_mib(report.peak_saved_bytes));
  return 0;
}

}  // namespace spillway::decision
