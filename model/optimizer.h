// optimizer.h - AdamW over every parameter, with PyTorch's semantics. Its two moments are the largest thing in memory
// after the first step: twice the parameters.
#pragma once
#include "kernels/adamw.h"
#include "model/execution.h"
#include "model/parameters.h"

namespace spillway::model {

class Optimizer {
 public:
  Optimizer(const kernels::AdamW& options, const Execution& run) : options_(options), run_(run) {}

  // One update from the gradients, every one of which must be there. The first allocates and zeroes the moments, all or
  // none: an OutOfMemory leaves parameters and states as they were.
  void step(Parameters& parameters);
  std::int64_t steps() const { return steps_; }

 private:
  void allocate_moments(Parameters& parameters) const;

  kernels::AdamW options_;
  Execution run_;
  std::int64_t steps_ = 0;
};

}  // namespace spillway::model
