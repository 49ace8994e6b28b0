// decoder_block.cpp - the decoder layer, operator by operator. Two rules give every gradient below.
//   A linear layer y = x W^T:     dx = dy W,   dW = dy^T x.
//   A value that is used twice:   its gradient is the sum of both uses' gradients. So "+=" below is never a trick, and
//                                 the residual connection costs nothing: its gradient stays where it is, in dx.
// Shapes: B batch, T seq, N = B * T rows, d model width, H query heads, G key and value heads, D head width, f ffn.
#include "model/decoder_block.h"

#include <stdexcept>
#include <string>

#include "kernels/bias.h"
#include "kernels/key_bias.h"
#include "kernels/matmul.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "model/weight.h"

namespace spillway::model {

template <class A>
DecoderBlock<A>::DecoderBlock(const Config& config, Index batch, Index seq, const Execution& run)
    : config_(config),
      shape_{batch, seq, config.heads, config.kv_heads, config.head_dim},
      rows_(checked_mul(batch, seq, "batch x seq")),
      run_(run),
      rope_(config, seq, run) {}

// ---- forward --------------------------------------------------------------------------------------------------------

template <class A>
void DecoderBlock<A>::forward(ForwardOp op, const SavedTensors<A>& saved, const Parameters::Layer& w) const {
  const auto [B, T, H, G, D] = shape_;
  const Index N = rows_, d = config_.d, f = config_.ffn;
  const auto bias = [](const Parameter* p) -> const float* { return p ? p->value.data() : nullptr; };

  switch (op) {
    // The attention half: x_mid = x + attention(norm(x)) Wo^T.
    case ForwardOp::norm1:  // h1 (N, d) = x * rstd1 * w
      return kernels::rmsnorm_forward(saved[h1], saved.statistic(rstd1), saved[x], w.norm1->value.data(), N, d,
                                      config_.rms_eps, run_.stream);

    case ForwardOp::q_proj:  // q (B, T, H, D) = rope(h1 Wq^T + bq)
      linear(saved[q], saved[h1], *w.q);
      return kernels::rope_forward(saved[q], bias(w.q_bias), rope_.cosine.data(), rope_.sine.data(), B, T, H, D,
                                   run_.stream);

    case ForwardOp::k_proj:  // k (B, T, G, D) = rope(h1 Wk^T + bk)
      linear(saved[k], saved[h1], *w.k);
      return kernels::rope_forward(saved[k], bias(w.k_bias), rope_.cosine.data(), rope_.sine.data(), B, T, G, D,
                                   run_.stream);

    case ForwardOp::v_proj:  // v (B, T, G, D) = h1 Wv^T + bv
      linear(saved[v], saved[h1], *w.v);
      if (w.v_bias) kernels::bias_forward(saved[v], bias(w.v_bias), N, G * D, run_.stream);
      return;

    case ForwardOp::attention:  // o (B, T, H, D) = softmax(q k^T / sqrt(D), causal) v
      return kernels::attention_forward(saved[o], saved.statistic(lse), saved[q], saved[k], saved[v], shape_,
                                        run_.stream);

    case ForwardOp::out_proj:  // x_mid (N, d) = o Wo^T + x
      linear(saved[x_mid], saved[o], *w.o);
      return kernels::residual_add(saved[x_mid], saved[x], N * d, run_.stream);

    // The feed-forward half: next x = x_mid + swiglu(norm(x_mid)) Wd^T.
    case ForwardOp::norm2:  // h2 (N, d) = x_mid * rstd2 * w
      return kernels::rmsnorm_forward(saved[h2], saved.statistic(rstd2), saved[x_mid], w.norm2->value.data(), N, d,
                                      config_.rms_eps, run_.stream);

    case ForwardOp::gate_proj:  // gate (N, f) = h2 Wg^T
      return linear(saved[gate], saved[h2], *w.gate);

    case ForwardOp::up_proj:  // up (N, f) = h2 Wu^T
      return linear(saved[up], saved[h2], *w.up);

    case ForwardOp::swiglu:  // s (N, f) = silu(gate) * up
      return kernels::swiglu_forward(saved[s], saved[gate], saved[up], N * f, run_.stream);

    case ForwardOp::down_proj:  // next x (N, d) = s Wd^T + x_mid
      linear(saved.next_input(), saved[s], *w.down);
      return kernels::residual_add(saved.next_input(), saved[x_mid], N * d, run_.stream);

    case ForwardOp::kForwardOps:
      break;
  }
  throw std::logic_error("decoder block: no forward operator " + std::to_string(op));
}

// ---- backward -------------------------------------------------------------------------------------------------------
// On entry dx is the gradient of the next layer's input, on return of this layer's.

template <class A>
void DecoderBlock<A>::backward(BackwardOp op, const SavedTensors<A>& saved, const Parameters::Layer& w,
                               Parameters& parameters) {
  const auto [B, T, H, G, D] = shape_;
  const Index N = rows_, d = config_.d, f = config_.ffn;
  auto& [dx, ds, dgate, dh, dout, dq, dk, dv] = grad_;

  switch (op) {
    // next x = s Wd^T + x_mid:  ds = dx Wd,  dWd = dx^T s;  x_mid's share is dx itself, which stays.
    case BackwardOp::down_proj_backward:
      ds = run_.workspace<A>(N * f, "ds");
      return linear_backward(ds.data(), 0, dx.data(), saved[s], *w.down, parameters);

    // s = silu(gate) * up, silu(g) = g sigma(g):
    //   dup = ds * silu(gate),  dgate = ds * up * sigma(gate) * (1 + gate * (1 - sigma(gate))).
    // ds is not needed any more: dup takes its place.
    case BackwardOp::swiglu_backward:
      dgate = run_.workspace<A>(N * f, "dgate");
      return kernels::swiglu_backward(dgate.data(), ds.data(), ds.data(), saved[gate], saved[up], N * f, run_.stream);

    // gate = h2 Wg^T and up = h2 Wu^T:  dh2 = dgate Wg + dup Wu,  dWg = dgate^T h2,  dWu = dup^T h2.
    case BackwardOp::gate_up_backward: {
      Tensor<A>& dup = ds;
      dh = run_.workspace<A>(N * d, "dh2");
      linear_backward(dh.data(), 0, dgate.data(), saved[h2], *w.gate, parameters);
      dgate.reset();
      linear_backward(dh.data(), 1, dup.data(), saved[h2], *w.up, parameters);
      dup.reset();
      return;
    }

    // h2 = norm(x_mid), and x_mid also went round the feed-forward half:  dx += d norm(dh2).
    case BackwardOp::norm2_backward:
      norm_backward(dh, saved[x_mid], saved.statistic(rstd2), *w.norm2, parameters);
      dh.reset();
      return;

    // x_mid = o Wo^T + x:  dout = dx Wo,  dWo = dx^T o;  x's share is dx itself, which stays.
    case BackwardOp::out_proj_backward:
      dout = run_.workspace<A>(N * H * D, "dout");
      return linear_backward(dout.data(), 0, dx.data(), saved[o], *w.o, parameters);

    // For each query head, with P = softmax(q k^T / sqrt(D)) and o = P v:
    //   dv = P^T dout,  dP = dout v^T,  dS = P * (dP - rowsum(dout * o)),  dq = dS k / sqrt(D),  dk = dS^T q / sqrt(D).
    // P is not saved: each tile of it is exp(S - lse) again. dk and dv are sums over the H / G heads that share them.
    case BackwardOp::attention_backward: {
      dq = run_.workspace<A>(N * H * D, "dq");
      dk = run_.workspace<A>(N * G * D, "dk");
      dv = run_.workspace<A>(N * G * D, "dv");
      const Tensor<float> row_sums = run_.workspace(kernels::attention_backward_scratch(shape_), "attention row sums");
      kernels::attention_backward(dq.data(), dk.data(), dv.data(), row_sums.data(), dout.data(), saved[q], saved[k],
                                  saved[v], saved[o], saved.statistic(lse), shape_, run_.stream);
      dout.reset();
      return;
    }

    // q = rope(h1 Wq^T + bq), likewise k; v = h1 Wv^T + bv. A rotation's gradient is rotated back; then
    //   dbq = sum of dq's rows,  dWq = dq^T h1,  dh1 = dq Wq + dk Wk + dv Wv.
    case BackwardOp::qkv_backward:
      key_bias_backward(w.k_bias, parameters);
      kernels::rope_backward(dq.data(), rope_.cosine.data(), rope_.sine.data(), B, T, H, D, run_.stream);
      kernels::rope_backward(dk.data(), rope_.cosine.data(), rope_.sine.data(), B, T, G, D, run_.stream);
      bias_backward(dq, w.q_bias, parameters);
      bias_backward(dv, w.v_bias, parameters);
      dh = run_.workspace<A>(N * d, "dh1");
      linear_backward(dh.data(), 0, dq.data(), saved[h1], *w.q, parameters);
      dq.reset();
      linear_backward(dh.data(), 1, dk.data(), saved[h1], *w.k, parameters);
      dk.reset();
      linear_backward(dh.data(), 1, dv.data(), saved[h1], *w.v, parameters);
      dv.reset();
      return;

    // h1 = norm(x), and x also went round the attention half:  dx += d norm(dh1). dx is now the layer below's.
    case BackwardOp::norm1_backward:
      norm_backward(dh, saved[x], saved.statistic(rstd1), *w.norm1, parameters);
      dh.reset();
      return;

    case BackwardOp::kBackwardOps:
      break;
  }
  throw std::logic_error("decoder block: no backward operator " + std::to_string(op));
}

// ---- the pieces -----------------------------------------------------------------------------------------------------

// y (N, out) = x (N, in) W (out, in)^T
template <class A>
void DecoderBlock<A>::linear(A* y, const A* x, const Parameter& weight) const {
  const Weight<A> w(weight, run_);
  kernels::linear_forward(run_.cublas, y, x, w.data(), rows_, weight.shape[1], weight.shape[0], run_.stream);
}

// dW (out, in) = dy (N, out)^T x (N, in);  dx (N, in) = dy W + beta dx
template <class A>
void DecoderBlock<A>::linear_backward(A* dx, float beta, const A* dy, const A* x, Parameter& weight,
                                      Parameters& parameters) const {
  const Index out = weight.shape[0], in = weight.shape[1];
  kernels::linear_backward_weight(run_.cublas, parameters.gradient(weight), dy, x, 0.f, rows_, in, out, run_.stream);
  const Weight<A> w(weight, run_);
  kernels::linear_backward_input(run_.cublas, dx, dy, w.data(), beta, rows_, in, out, run_.stream);
}

// dbias (out) = sum over rows of dy (N, out)
template <class A>
template <class Dy>
void DecoderBlock<A>::bias_backward(const Tensor<Dy>& dy, Parameter* bias, Parameters& parameters) const {
  if (!bias) return;
  const Index out = bias->shape[0];
  const Tensor<float> scratch = run_.workspace(kernels::bias_backward_scratch(rows_, out), "bias partial sums");
  kernels::bias_backward(parameters.gradient(*bias), scratch.data(), dy.data(), rows_, out, run_.stream);
}

// dbk (G * D) = sum over rows of dk rotated back, taken as the sum of what the rotation changes: kernels/key_bias.h
// says why that is the same, and better. dk (N, G * D) is not rotated back yet.
template <class A>
void DecoderBlock<A>::key_bias_backward(Parameter* bias, Parameters& parameters) const {
  if (!bias) return;
  const Tensor<float> terms = run_.workspace(grad_.dk.size(), "key bias terms");
  kernels::key_bias_terms(terms.data(), grad_.dk.data(), rope_.cosine.data(), rope_.sine.data(), shape_.batch,
                          shape_.seq, shape_.kv_heads, shape_.head_dim, run_.stream);
  bias_backward(terms, bias, parameters);
}

// y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps):
//   dw = sum over rows of dy * x * rstd,  dx += rstd * (w * dy - x * rstd^2 * mean(w * dy * x))
template <class A>
void DecoderBlock<A>::norm_backward(const Tensor<A>& dy, const A* x, const float* rstd, Parameter& weight,
                                    Parameters& parameters) const {
  const Tensor<float> scratch =
      run_.workspace(kernels::rmsnorm_backward_scratch(rows_, config_.d), "norm partial sums");
  kernels::rmsnorm_backward(grad_.dx.data(), parameters.gradient(weight), scratch.data(), dy.data(), x,
                            weight.value.data(), rstd, rows_, config_.d, run_.stream);
}

template class DecoderBlock<float>;
template class DecoderBlock<kernels::bfloat16>;

}  // namespace spillway::model
