// step_ranges.h - names what a step does for a profiler: around the actions of a schedule, a range for the phase, in it
// one for the layer, in it one for the operator or copy. Offload, prefetch and recompute keep the phase and the layer
// in whose midst the schedule put them, and name their own.
#pragma once
#include <optional>

#include "profiler/range.h"
#include "runtime/activation/schedule.h"

namespace spillway::model {

class StepRanges {
 public:
  // The spec must outlive this.
  explicit StepRanges(const activation::LayerSpec& spec) : spec_(spec) {}

  // A pass over the schedule: when it is over, or given up, no range of it is open.
  class Scope {
   public:
    explicit Scope(StepRanges& ranges) : ranges_(ranges) {}
    ~Scope() { ranges_.finish(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepRanges& ranges_;
  };
  void begin(const activation::Action& action);
  void end() { operator_.reset(); }

 private:
  void finish();
  void enter(profiler::Phase phase, int layer);

  const activation::LayerSpec& spec_;
  profiler::Phase current_phase_ = profiler::Phase::none;
  int current_layer_ = -1;
  // Each within the one before it, and gone before it.
  std::optional<profiler::Range> phase_, layer_, operator_;
};

}  // namespace spillway::model
