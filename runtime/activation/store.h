// store.h - executes a schedule: owns the saved tensors' device memory, the host slots they are offloaded to, the two
// copy streams and the events. The model hands it an interface of operators and never learns which plan is running.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/activation/schedule.h"
#include "runtime/cuda.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/pinned_arena.h"

namespace spillway::activation {

// What the model can do, one call an action. All work goes to the compute stream. Saved tensors are reached through
// Store::tensor; they are valid (in compute-stream order) during the call that the schedule allows them in.
class StepOperators {
 public:
  virtual ~StepOperators() = default;
  virtual void embed() = 0;
  virtual void forward(int layer, int op) = 0;
  virtual void recompute(int layer, int op) = 0;
  virtual void head() = 0;
  virtual void backward(int layer, int op) = 0;
  virtual void embed_backward() = 0;
  virtual void optimizer() = 0;
  // Before and after everything that an action asks of the device: its waits, itself, its event. Not after an action
  // that throws.
  virtual void begin(const Action&) {}
  virtual void end() {}
};

// What the last step cost, from events on the streams. Times are milliseconds.
struct StepCost {
  double recompute_ms = 0;         // compute-stream time of recompute actions
  double transfer_ms = 0;          // time the copy streams spent copying, both directions
  double exposed_transfer_ms = 0;  // time the compute stream stood waiting for copies
  std::int64_t offload_bytes = 0, prefetch_bytes = 0, recompute_flops = 0;
};

struct StoreOptions {
  bool poison_host_slots = false;  // fill a host slot with NaN after its prefetch, so that a stale read shows
  bool measure = true;             // record timing events
};

class Store {
 public:
  // Installs a plan: builds its schedule, allocates its host arena (the only host allocation it ever makes).
  Store(const LayerSpec& spec, const Plan& plan, memory::Allocator& allocator, cudaStream_t compute,
        StoreOptions options = {});
  // For tests: run a schedule of your own making.
  Store(const LayerSpec& spec, Plan plan, Schedule schedule, memory::Allocator& allocator, cudaStream_t compute,
        StoreOptions options = {});
  ~Store();  // waits for the device

  // One training step, enqueued; returns when the host has issued everything. Throws what the operators throw
  // (OutOfMemory among them) after the device is idle and every tensor of the step is freed.
  void run(StepOperators& operators);
  // A forward pass that saves nothing.
  void evaluate(StepOperators& operators);

  // Device address of (layer, tensor); layer == layers gives the head's input with tensor 0. std::logic_error when the
  // schedule does not hold it in memory now.
  void* tensor(int layer, int tensor) const;

  // Of the last run, after the compute stream was synchronized.
  StepCost cost() const;
  std::int64_t host_bytes() const;         // of the slots that tensors are offloaded to; 0 when none is
  std::int64_t pinned_host_bytes() const;  // of those, pinned
  const Plan& plan() const { return plan_; }
  const Schedule& schedule() const { return training_; }
  const LayerSpec& spec() const { return spec_; }
  cudaStream_t copy_out() const;
  cudaStream_t copy_in() const;

 private:
  struct Impl;
  LayerSpec spec_;
  Plan plan_;
  Schedule training_, evaluation_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::activation
