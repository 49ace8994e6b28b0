// step_ranges.cpp - see step_ranges.h.
#include "model/step_ranges.h"

namespace spillway::model {
namespace {

using activation::Action;
using profiler::Phase;

// The part of the step that an action moves on to; none: it happens wherever the step is.
Phase phase_of(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::embed:
    case Action::Kind::forward:
    case Action::Kind::head:
      return Phase::forward;
    case Action::Kind::recompute:
    case Action::Kind::backward:
    case Action::Kind::embed_backward:
      return Phase::backward;
    case Action::Kind::optimizer:
      return Phase::optimizer;
    case Action::Kind::allocate:
    case Action::Kind::release:
    case Action::Kind::offload:
    case Action::Kind::prefetch:
      break;
  }
  return Phase::none;
}

}  // namespace

void StepRanges::begin(const Action& a) {
  if (const Phase phase = phase_of(a.kind); phase != Phase::none) enter(phase, a.op >= 0 ? a.layer : -1);
  switch (a.kind) {
    case Action::Kind::forward:
    case Action::Kind::recompute:
      operator_.emplace(a.kind == Action::Kind::forward ? Phase::forward : Phase::recompute,
                        spec_.forward[static_cast<std::size_t>(a.op)].name.c_str(), a.layer);
      break;
    case Action::Kind::backward:
      operator_.emplace(Phase::backward, spec_.backward[static_cast<std::size_t>(a.op)].name.c_str(), a.layer);
      break;
    case Action::Kind::offload:
    case Action::Kind::prefetch:
      operator_.emplace(a.kind == Action::Kind::offload ? Phase::offload : Phase::prefetch,
                        spec_.tensors[static_cast<std::size_t>(a.tensor)].name.c_str(), a.layer);
      break;
    case Action::Kind::embed:
    case Action::Kind::head:
    case Action::Kind::embed_backward:
      operator_.emplace(current_phase_, to_string(a.kind));
      break;
    case Action::Kind::optimizer:  // its phase says it
    case Action::Kind::allocate:   // no work of the device
    case Action::Kind::release:
      break;
  }
}

void StepRanges::enter(Phase phase, int layer) {
  if (phase != current_phase_) {
    finish();
    phase_.emplace(phase, profiler::to_string(phase));
    current_phase_ = phase;
  }
  if (layer == current_layer_) return;
  layer_.reset();
  if (layer >= 0) layer_.emplace(phase, "", layer);
  current_layer_ = layer;
}

void StepRanges::finish() {
  operator_.reset();
  layer_.reset();
  phase_.reset();
  current_phase_ = Phase::none;
  current_layer_ = -1;
}

}  // namespace spillway::model
