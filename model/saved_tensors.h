// saved_tensors.h - the one table of what a decoder block saves for its backward pass: name, shape, what makes it from
// what, and what that costs. Placement, recomputation, offload, explain and forecasts all read it; nothing else knows.
#pragma once
#include <cstdint>

#include "model/config.h"
#include "runtime/activation/plan.h"

namespace spillway::model {

// Indices into LayerSpec::tensors.
enum Saved : int { x, rstd1, h1, q, k, v, o, lse, x_mid, rstd2, h2, gate, up, s, kSavedTensors };
// Indices into LayerSpec::forward.
enum ForwardOp : int {
  norm1,
  q_proj,
  k_proj,
  v_proj,
  attention,
  out_proj,
  norm2,
  gate_proj,
  up_proj,
  swiglu,
  down_proj,
  kForwardOps
};
// Indices into LayerSpec::backward, in the order they run.
enum BackwardOp : int {
  down_proj_backward,
  swiglu_backward,
  gate_up_backward,
  norm2_backward,
  out_proj_backward,
  attention_backward,
  qkv_backward,
  norm1_backward,
  kBackwardOps
};

// The table for this model, batch and seq_len. `element_bytes` is the activation type's (4 for
// float, 2 for bfloat16).
activation::LayerSpec layer_spec(const Config& config, std::int64_t batch, std::int64_t seq,
                                 std::int64_t element_bytes);

}  // namespace spillway::model
