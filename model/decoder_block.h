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

// The saved tensors of one layer, where the store holds them during this call. A: the type of activations.
template <class A>
class SavedTensors {
 public:
  SavedTensors(const activation::Store& store, int layer) : store_(store), layer_(layer) {}
  A* operator[](Saved tensor) const { return static_cast<A*>(store_.tensor(layer_, tensor)); }
  // The statistics rstd1, rstd2 and lse are float in any case.
  float* statistic(Saved tensor) const { return static_cast<float*>(store_.tensor(layer_, tensor)); }
  // The input of the next layer, or of the head.
  A* next_input() const { return static_cast<A*>(store_.tensor(layer_ + 1, Saved::x)); }

 private:
  const activation::Store& store_;
  int layer_;
};

template <class A>
class DecoderBlock {
 public:
  DecoderBlock(const Config& config, Index batch, Index seq, const Execution& run);

  void forward(ForwardOp op, const SavedTensors<A>& saved, const Parameters::Layer& weights) const;

  // The backward pass goes through the layers from last to first and carries one tensor along: dx (B, T, d), the
  // gradient of the residual stream. The head gives it, every layer adds to it in place, the embedding takes it.
  void begin_backward(Tensor<A> dx) { grad_.dx = std::move(dx); }
  void backward(BackwardOp op, const SavedTensors<A>& saved, const Parameters::Layer& weights, Parameters& parameters);
  Tensor<A> end_backward() { return std::move(grad_.dx); }

  // After an exception: gives back what a half-finished backward pass holds.
  void abandon_backward() { grad_ = {}; }

 private:
  // Gradients of activations on their way from one backward operator to the next. Each is allocated by the operator
  // that writes it and freed by the last that reads it.
  struct ActivationGradients {
    Tensor<A> dx;          // (B, T, d)  of the residual stream
    Tensor<A> ds;          // (B, T, f)  of s; becomes dup in place
    Tensor<A> dgate;       // (B, T, f)
    Tensor<A> dh;          // (B, T, d)  of h2, then of h1
    Tensor<A> dout;        // (B, T, H * D)
    Tensor<A> dq, dk, dv;  // (B, T, H * D), (B, T, G * D), (B, T, G * D)
  };

  void linear(A* y, const A* x, const Parameter& weight) const;
  void linear_backward(A* dx, float beta, const A* dy, const A* x, Parameter& weight, Parameters& parameters) const;
  template <class Dy>
  void bias_backward(const Tensor<Dy>& dy, Parameter* bias, Parameters& parameters) const;
  void key_bias_backward(Parameter* bias, Parameters& parameters) const;
  void norm_backward(const Tensor<A>& dy, const A* x, const float* rstd, Parameter& weight,
                     Parameters& parameters) const;

  Config config_;
  kernels::AttentionShape shape_;
  Index rows_;  // B * T
  Execution run_;
  RopeTables rope_;
  ActivationGradients grad_;
};

}  // namespace spillway::model
