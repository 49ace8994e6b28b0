// decoder_block.h - one decoder layer, forward and backward, as the list of operators that saved_tensors.h names. Each
// operator reads and writes saved tensors by name; where those stand, whether they were recomputed or brought back from
// the host, is the store's affair. Read decoder_block.cpp from top to bottom to see how a transformer's backward pass
// works: every gradient is derived beside the two or three calls that compute it.
#pragma once
#include <utility>

#include "kernels/attention.h"
#include "model/config.h"
#include "model/execution.h"
#include "model/parameters.h"
#include "model/rope_tables.h"
#include "model/saved_tensors.h"
#include "runtime/activation/store.h"

namespace spillway::model {

// The saved tensors of one layer, where the store holds them during this call.
class SavedTensors {
 public:
  SavedTensors(const activation::Store& store, int layer) : store_(store), layer_(layer) {}
  float* operator[](Saved tensor) const { return static_cast<float*>(store_.tensor(layer_, tensor)); }
  // The input of the next layer, or of the head.
  float* next_input() const { return static_cast<float*>(store_.tensor(layer_ + 1, Saved::x)); }

 private:
  const activation::Store& store_;
  int layer_;
};

class DecoderBlock {
 public:
  DecoderBlock(const Config& config, Index batch, Index seq, const Execution& run);

  void forward(ForwardOp op, const SavedTensors& saved, const Parameters::Layer& weights) const;

  // The backward pass goes through the layers from last to first and carries one tensor along: dx (B, T, d), the
  // gradient of the residual stream. The head gives it, every layer adds to it in place, the embedding takes it.
  void begin_backward(Tensor<float> dx) { grad_.dx = std::move(dx); }
  void backward(BackwardOp op, const SavedTensors& saved, const Parameters::Layer& weights, Parameters& parameters);
  Tensor<float> end_backward() { return std::move(grad_.dx); }

  // After an exception: gives back what a half-finished backward pass holds.
  void abandon_backward() { grad_ = {}; }

 private:
  // Gradients of activations on their way from one backward operator to the next. Each is allocated by the operator
  // that writes it and freed by the last that reads it.
  struct ActivationGradients {
    Tensor<float> dx;          // (B, T, d)  of the residual stream
    Tensor<float> ds;          // (B, T, f)  of s; becomes dup in place
    Tensor<float> dgate;       // (B, T, f)
    Tensor<float> dh;          // (B, T, d)  of h2, then of h1
    Tensor<float> dout;        // (B, T, H * D)
    Tensor<float> dq, dk, dv;  // (B, T, H * D), (B, T, G * D), (B, T, G * D)
  };

  void linear(float* y, const float* x, const Parameter& weight) const;
  void linear_backward(float* dx, float beta, const float* dy, const float* x, Parameter& weight,
                       Parameters& parameters) const;
  void bias_backward(const Tensor<float>& dy, Parameter* bias, Parameters& parameters) const;
  void key_bias_backward(Parameter* bias, Parameters& parameters) const;
  void norm_backward(const Tensor<float>& dy, const float* x, const float* rstd, Parameter& weight,
                     Parameters& parameters) const;

  Config config_;
  kernels::AttentionShape shape_;
  Index rows_;  // B * T
  Execution run_;
  RopeTables rope_;
  ActivationGradients grad_;
};

}  // namespace spillway::model
