// plan.cpp - see plan.h: the named strategies, and what a plan means for a layer.
#include "runtime/activation/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/error.h"

namespace spillway::activation {
const char* to_string(Placement p) {
  switch (p) {
    case Placement::keep:
      return "keep";
    case Placement::recompute:
      return "recompute";
    case Placement::offload:
      return "offload";
  }
  return "?";
}

void LayerSpec::validate() const {
  const int count = static_cast<int>(tensors.size());
  if (count == 0) throw Error("layer spec: no tensors; tensor 0 is the layer's input");
  std::vector<bool> written(tensors.size(), false);
  written[0] = true;  // by the layer before
  const auto check_read = [&](const std::string& op, int t) {
    if (t < 0 || t >= count) throw Error(fmt::format("layer spec: {} reads tensor {} of {}", op, t, count));
    if (!written[static_cast<std::size_t>(t)])
      throw Error(
          fmt::format("layer spec: {} reads {} before it is written", op, tensors[static_cast<std::size_t>(t)].name));
  };
  int next_inputs = 0;
  for (const ForwardOperator& op : forward) {
    for (const int t : op.reads) check_read(op.name, t);
    for (const int t : op.writes) {
      if (t < 0 || t >= count) throw Error(fmt::format("layer spec: {} writes tensor {} of {}", op.name, t, count));
      if (written[static_cast<std::size_t>(t)])
        throw Error(
            fmt::format("layer spec: {} writes {} a second time", op.name, tensors[static_cast<std::size_t>(t)].name));
      written[static_cast<std::size_t>(t)] = true;
    }
    if (op.writes_next_input && !op.writes.empty())
      throw Error(fmt::format("layer spec: {} writes the next layer's input and must write nothing else", op.name));
    next_inputs += op.writes_next_input;
  }
  if (next_inputs != 1)
    throw Error(fmt::format("layer spec: {} operators write the next layer's input; exactly one must", next_inputs));
  for (const BackwardOperator& op : backward)
    for (const int t : op.reads) check_read(op.name, t);
  for (const SavedTensor& t : tensors)
    if (t.bytes <= 0) throw Error(fmt::format("layer spec: {} has {} bytes", t.name, t.bytes));
}

void Plan::validate(const LayerSpec& spec) const {
  if (placements.empty()) throw Error(fmt::format("plan {}: no layers", name));
  for (std::size_t l = 0; l < placements.size(); ++l) {
    if (placements[l].size() != spec.tensors.size())
      throw Error(fmt::format("plan {}: layer {} places {} tensors, but a layer has {}", name, l, placements[l].size(),
                              spec.tensors.size()));
    if (placements[l][0] == Placement::recompute)
      throw Error(
          fmt::format("plan {}: layer {} recomputes its input {}, which only the layer before could make; keep or "
                      "offload it",
                      name, l, spec.tensors[0].name));
  }
  if (window < 2)
    throw Error(fmt::format("plan {}: a window of {} layers; at least 2, one to use and one in flight", name, window));
}

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"baseline", "checkpoint", "offload", "hybrid", "offload-pageable"};
  return names;
}

Plan make_plan(std::string_view name, const LayerSpec& spec, int layers) {
  Plan plan;
  plan.name = name;
  // Where a layer's input goes and where the rest goes.
  Placement input = Placement::keep, others = Placement::keep;
  if (name == "checkpoint") {
    others = Placement::recompute;
  } else if (name == "offload" || name == "offload-pageable") {
    input = others = Placement::offload;
    if (name == "offload-pageable") plan.host_memory = memory::HostMemory::pageable;
  } else if (name == "hybrid") {
    input = Placement::offload;
    others = Placement::recompute;
  } else if (name != "baseline") {
    throw Error(fmt::format("unknown strategy '{}': choose from {}", name, fmt::join(strategy_names(), ", ")));
  }
  std::vector<Placement> layer(spec.tensors.size(), others);
  layer[0] = input;
  plan.placements.assign(static_cast<std::size_t>(layers), layer);
  // The last layer's backward pass follows its forward pass at once: nothing could hide copies there.
  if (layers > 0)
    std::replace(plan.placements.back().begin(), plan.placements.back().end(), Placement::offload, Placement::keep);
  plan.validate(spec);
  return plan;
}

std::vector<bool> read_again(const Plan& plan, const LayerSpec& spec, int layer) {
  std::vector<bool> read(spec.tensors.size(), false);
  for (const BackwardOperator& op : spec.backward)
    for (const int t : op.reads) read[static_cast<std::size_t>(t)] = true;
  for (const int i : recomputed_operators(plan, spec, layer))
    for (const int t : spec.forward[static_cast<std::size_t>(i)].reads) read[static_cast<std::size_t>(t)] = true;
  return read;
}

std::vector<int> recomputed_operators(const Plan& plan, const LayerSpec& spec, int layer) {
  // From what the backward pass reads, back through the operators that make it.
  std::vector<bool> missing(spec.tensors.size(), false);
  const auto need = [&](int t) {
    if (plan.at(layer, t) == Placement::recompute) missing[static_cast<std::size_t>(t)] = true;
  };
  for (const BackwardOperator& op : spec.backward)
    for (const int t : op.reads) need(t);
  std::vector<int> operators;
  for (int i = static_cast<int>(spec.forward.size()) - 1; i >= 0; --i) {
    const ForwardOperator& op = spec.forward[static_cast<std::size_t>(i)];
    const bool wanted =
        std::any_of(op.writes.begin(), op.writes.end(), [&](int t) { return missing[static_cast<std::size_t>(t)]; });
    if (!wanted) continue;
    operators.push_back(i);
    for (const int t : op.reads) need(t);
  }
  std::reverse(operators.begin(), operators.end());
  return operators;
}

PlanTotals totals(const Plan& plan, const LayerSpec& spec) {
  PlanTotals sum;
  for (int l = 0; l < plan.layers(); ++l) {
    for (int t = 0; t < static_cast<int>(spec.tensors.size()); ++t) {
      const std::int64_t bytes = spec.tensors[static_cast<std::size_t>(t)].bytes;
      switch (plan.at(l, t)) {
        case Placement::keep:
          sum.kept_bytes += bytes;
          break;
        case Placement::offload:
          sum.offloaded_bytes += bytes;
          break;
        case Placement::recompute:
          break;
      }
    }
    for (const int op : recomputed_operators(plan, spec, l))
      sum.recompute_flops += spec.forward[static_cast<std::size_t>(op)].flops;
  }
  return sum;
}

}  // namespace spillway::activation
