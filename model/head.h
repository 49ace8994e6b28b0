// head.h - the end of the model: final norm, projection to the vocabulary, cross-entropy. Logits are by far the widest
// tensor there is (151,936 floats a token in Qwen2.5: 445 MiB at 768 tokens), and the gradient is as large again. So
// the head takes a chunk of tokens at a time: logits, loss, gradient in place, and on to the next chunk in the same
// memory.
#pragma once
#include <functional>

#include "model/config.h"
#include "model/device_batch.h"
#include "model/execution.h"
#include "model/parameters.h"

namespace spillway::model {

// Tokens of logits at a time (1 .. rows), from TrainerOptions::lmhead_chunk. Error when that is less than -1.
Index resolve_lmhead_chunk(std::int64_t chunk, Index rows, Index vocab);

template <class A>  // the type of activations and logits
class Head {
 public:
  // `chunk` in tokens, as TrainerOptions::lmhead_chunk has it. Error when it is less than -1.
  Head(const Config& config, Index rows, std::int64_t chunk, const Execution& run);

  // From x (N, d), the last layer's output: loss (1) = mean cross-entropy over the batch's predicted positions, the
  // gradients of final norm and projection, and the result dx (N, d).
  Tensor<A> forward_backward(float* loss, const A* x, const DeviceBatch& batch, Parameters& parameters) const;
  // The loss alone. `look`, if any, is shown each chunk of logits (first row, rows, device pointer) once enqueued.
  using LookAtLogits = std::function<void(Index first, Index rows, const A* logits)>;
  void evaluate(float* loss, const A* x, const DeviceBatch& batch, Parameters& parameters,
                const LookAtLogits& look) const;

  Index chunk() const { return chunk_; }

 private:
  void logits_of(const Tensor<A>& logits, const Tensor<A>& h, Index first, Index rows, const A* weight) const;
  Tensor<A> normalize(const Tensor<float>& rstd, const A* x, Parameters& parameters) const;

  Config config_;
  Index rows_, chunk_;  // N; tokens at a time, 1 .. N
  Execution run_;
};

}  // namespace spillway::model
