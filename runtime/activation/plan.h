// plan.h - the vocabulary of activation memory, as plain data: what a layer saves for its backward pass (LayerSpec),
// and where a plan puts each saved tensor of each layer (Plan). Knows nothing of transformers: the model describes its
// layer in this language once, and every strategy is a Plan.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/memory/pinned_arena.h"

namespace spillway::activation {

enum class Placement : std::uint8_t {
  keep,       // stays in device memory from forward to backward
  recompute,  // released after its last forward use; its operator runs again in the backward pass
  offload,    // copied to host memory after it is produced, back before it is needed
};
const char* to_string(Placement p);

// A tensor that the forward pass of a layer writes and its backward pass may read.
struct SavedTensor {
  std::string name;   // "x", "h1", "q" ...
  std::string shape;  // for people: "(B, T, d)"
  std::int64_t bytes = 0;
};

// A forward operator of a layer. Tensor 0 is the layer's input, written by the layer before; an operator that
// writes_next_input produces tensor 0 of the next layer (after the last layer: the head's input).
struct ForwardOperator {
  std::string name;
  std::vector<int> reads, writes;  // indices into LayerSpec::tensors
  bool writes_next_input = false;
  std::int64_t flops = 0, bytes = 0;  // what one run of it does at least
};

// A backward operator: which saved tensors it reads. Gradients between operators are the model's own affair.
struct BackwardOperator {
  std::string name;
  std::vector<int> reads;
};

// All layers of a model are alike.
struct LayerSpec {
  std::vector<SavedTensor> tensors;        // [0] is the layer's input
  std::vector<ForwardOperator> forward;    // in order of execution
  std::vector<BackwardOperator> backward;  // in order of execution
  // Throws Error naming the first thing that is not sound: an index out of range, a tensor written twice or read before
  // it is written, no or more than one operator that writes the next input.
  void validate() const;
};

// Placement of every saved tensor of every layer. The head's input (tensor 0 after the last layer) is always kept.
struct Plan {
  std::string name;
  std::vector<std::vector<Placement>> placements;  // [layer][tensor]
  memory::HostMemory host_memory = memory::HostMemory::pinned;
  // How many layers' offloaded tensors may stand in device memory at once (>= 2): one computing, the others in flight.
  int window = 2;

  int layers() const { return static_cast<int>(placements.size()); }
  Placement at(int layer, int tensor) const { return placements.at(layer).at(tensor); }
  // Throws Error: a layer or tensor too few or too many, a layer input placed recompute, window < 2.
  void validate(const LayerSpec& spec) const;
};

// The named strategies, in the order of PROTOCOL.md: baseline, checkpoint, offload, hybrid, offload-pageable.
// The last layer of the offloading plans keeps its tensors: its backward pass follows at once, and nothing could hide
// the copies.
const std::vector<std::string>& strategy_names();
// Error listing the names when `name` is none of them.
Plan make_plan(std::string_view name, const LayerSpec& spec, int layers);

// What a plan costs by arithmetic alone, per step.
struct PlanTotals {
  std::int64_t kept_bytes = 0, offloaded_bytes = 0;  // of saved tensors, all layers
  std::int64_t recompute_flops = 0;  // of the operators that run again, those needed only for others included
};
PlanTotals totals(const Plan& plan, const LayerSpec& spec);
// Which tensors of `layer` its backward pass reads, operators that run again included. What nobody reads again is
// released after its last forward use, wherever the plan places it.
std::vector<bool> read_again(const Plan& plan, const LayerSpec& spec, int layer);
// The forward operators that must run again in `layer`'s backward pass, in order.
std::vector<int> recomputed_operators(const Plan& plan, const LayerSpec& spec, int layer);

}  // namespace spillway::activation
