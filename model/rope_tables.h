// rope_tables.h - the cosines and sines of rotary position embedding, computed once a trainer, in double: a float angle
// of a few thousand radians has lost three of its digits before the cosine is taken.
#pragma once
#include "model/config.h"
#include "model/execution.h"

namespace spillway::model {

struct RopeTables {
  // angle(t, i) = t * theta^(-2 i / head_dim)
  RopeTables(const Config& config, Index seq, const Execution& run);

  Tensor<float> cosine, sine;  // (T, D / 2)
};

}  // namespace spillway::model
