// trainer.h - one transformer, one plan, trained a step at a time. The reading order of the model: config ->
// saved_tensors -> parameters -> decoder_block -> head -> optimizer -> here, where the store drives them all.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokens.h"
#include "kernels/adamw.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/precision.h"
#include "runtime/activation/store.h"
#include "runtime/cuda.h"

namespace spillway::model {

struct TrainerOptions {
  std::int64_t batch = 1, seq = 768;
  Precision precision = Precision::float32;
  std::string strategy = "baseline";
  std::optional<activation::Plan> plan = std::nullopt;  // instead of a named strategy
  std::int64_t lmhead_chunk = -1;  // tokens of logits at a time; 0: all at once; -1: as many as fit in 160 MiB
  kernels::AdamW adamw{};
  activation::StoreOptions store{};
};

// Error, in one line, when the model cannot train on rows of this shape: seq below 2 or above its positions, batch
// below 1, more tokens than a step can index, sizes that overflow.
void check_shape(const Config& config, std::int64_t batch, std::int64_t seq);

struct StepResult {
  float loss = 0;      // before the update
  double step_ms = 0;  // device time from the first to the last action, by events
  activation::StepCost cost;
};

class Trainer {
 public:
  // Allocates parameters; weights are undefined until initialize() or load(). Error when seq exceeds the model's
  // positions, seq < 2, batch < 1, or sizes overflow.
  Trainer(const Config& config, const TrainerOptions& options, memory::Allocator& allocator);
  ~Trainer();

  Parameters& parameters();
  // One training step on `tokens` (batch, seq): forward, backward, AdamW. Synchronizes before it returns.
  // Error when an id is outside the vocabulary. After an exception the trainer still holds parameters and states only.
  StepResult step(const data::TokenBatch& tokens);
  // Mean loss without gradients.
  float evaluate(const data::TokenBatch& tokens);
  // All logits (batch, seq, vocab), a chunk at a time on the device. For verify and tests.
  std::vector<float> logits(const data::TokenBatch& tokens);
  // Called within a step after the backward pass and before the update, with everything synchronized: gradients can be
  // read then. For verify and tests.
  void set_before_update(std::function<void(Parameters&)> hook);

  // The streams that a step runs on, with their names.
  std::vector<std::pair<cudaStream_t, std::string>> streams() const;
  const activation::Store& store() const;
  const Config& config() const;
  std::int64_t lmhead_chunk() const;  // as resolved: tokens at a time
  std::int64_t steps() const;

 private:
  struct Impl;
  template <class A>
  struct Typed;
  std::unique_ptr<Impl> impl_;
};

// Device floats copied to the host, after the device is idle.
std::vector<float> read_back(const Tensor<float>& tensor);

}  // namespace spillway::model
