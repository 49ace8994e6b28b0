// saved_tensors.cpp - the table itself: see saved_tensors.h. Costs are what the kernels declare at their launches; a
// test runs every operator and compares.
#include "model/saved_tensors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "runtime/error.h"

namespace spillway::model {

activation::LayerSpec layer_spec(const Config& config, std::int64_t batch, std::int64_t seq,
                                 std::int64_t element_bytes) {
  const auto mul = [](std::int64_t a, std::int64_t b) { return checked_mul(a, b, "saved tensors"); };
  constexpr std::int64_t kFloat = sizeof(float);
  const std::int64_t N = mul(batch, seq), d = config.d, f = config.ffn, e = element_bytes;
  const std::int64_t hq = config.q_width(), hk = config.kv_width(), H = config.heads;
  // No cost below is above the largest of these, so none can overflow, nor its sum over the layers: a linear layer's
  // flops, attention's, the bytes of all tensors of a layer, the bytes of a weight.
  const std::int64_t widest = std::max({d, f, hq, hk}), L = config.layers;
  mul(L, mul(mul(mul(4, N), widest), widest));
  mul(L, mul(mul(mul(mul(4, N), seq), H), config.head_dim));
  mul(L, mul(mul(mul(16, N), widest), std::max(e, kFloat)));
  mul(L, mul(mul(mul(16, widest), widest), std::max(e, kFloat)));

  activation::LayerSpec spec;
  spec.tensors.resize(kSavedTensors);
  const auto tensor = [&](Saved id, const char* name, const char* shape, std::int64_t elements, std::int64_t width) {
    spec.tensors[id] = {name, shape, mul(mul(N, elements), width)};
  };
  //     what     name     shape           elements a token, bytes each
  tensor(x, "x", "(B, T, d)", d, e);
  tensor(rstd1, "rstd1", "(B, T)", 1, kFloat);
  tensor(h1, "h1", "(B, T, d)", d, e);
  tensor(q, "q", "(B, T, H, D)", hq, e);
  tensor(k, "k", "(B, T, G, D)", hk, e);
  tensor(v, "v", "(B, T, G, D)", hk, e);
  tensor(o, "o", "(B, T, H, D)", hq, e);
  tensor(lse, "lse", "(B, H, T)", H, kFloat);
  tensor(x_mid, "x_mid", "(B, T, d)", d, e);
  tensor(rstd2, "rstd2", "(B, T)", 1, kFloat);
  tensor(h2, "h2", "(B, T, d)", d, e);
  tensor(gate, "gate", "(B, T, f)", f, e);
  tensor(up, "up", "(B, T, f)", f, e);
  tensor(s, "s", "(B, T, f)", f, e);

  // Work of the pieces that operators are made of.
  struct Cost {
    std::int64_t flops, bytes;
    Cost operator+(const Cost& other) const { return {flops + other.flops, bytes + other.bytes}; }
  };
  // In bfloat16 the weight is rounded first (weight.h).
  const auto linear = [&](std::int64_t in, std::int64_t out) {
    const std::int64_t rounding = e == kFloat ? 0 : in * out * (kFloat + e);
    return Cost{2 * N * in * out, (N * in + in * out + N * out) * e + rounding};
  };
  const auto add = [&](std::int64_t n) { return Cost{n, 3 * n * e}; };
  const Cost norm = {4 * N * d, 2 * N * d * e + (N + d) * kFloat};
  const auto rope = [&](std::int64_t heads, bool bias) {
    const std::int64_t width = heads * config.head_dim;
    return Cost{3 * N * width + (bias ? N * width : 0),
                2 * N * width * e + (seq * config.head_dim + (bias ? width : 0)) * kFloat};
  };
  const Cost v_bias = config.qkv_bias ? Cost{N * hk, 2 * N * hk * e + hk * kFloat} : Cost{0, 0};
  const kernels::Work attend = kernels::attention_forward_work({batch, seq, H, config.kv_heads, config.head_dim}, e);
  const Cost gated = {5 * N * f, 3 * N * f * e};

  spec.forward.resize(kForwardOps);
  const auto op = [&](ForwardOp id, const char* name, std::vector<int> reads, std::vector<int> writes, Cost cost) {
    spec.forward[id] = {name, std::move(reads), std::move(writes), false, cost.flops, cost.bytes};
  };
  op(norm1, "norm1", {x}, {rstd1, h1}, norm);
  op(q_proj, "q_proj", {h1}, {q}, linear(d, hq) + rope(H, config.qkv_bias));
  op(k_proj, "k_proj", {h1}, {k}, linear(d, hk) + rope(config.kv_heads, config.qkv_bias));
  op(v_proj, "v_proj", {h1}, {v}, linear(d, hk) + v_bias);
  op(attention, "attention", {q, k, v}, {o, lse}, {attend.flops, attend.bytes});
  op(out_proj, "out_proj", {o, x}, {x_mid}, linear(hq, d) + add(N * d));
  op(norm2, "norm2", {x_mid}, {rstd2, h2}, norm);
  op(gate_proj, "gate_proj", {h2}, {gate}, linear(d, f));
  op(up_proj, "up_proj", {h2}, {up}, linear(d, f));
  op(swiglu, "swiglu", {gate, up}, {s}, gated);
  op(down_proj, "down_proj", {s, x_mid}, {}, linear(f, d) + add(N * d));
  spec.forward[down_proj].writes_next_input = true;

  spec.backward.resize(kBackwardOps);
  spec.backward[down_proj_backward] = {"down_proj", {s}};
  spec.backward[swiglu_backward] = {"swiglu", {gate, up}};
  spec.backward[gate_up_backward] = {"gate_up", {h2}};
  spec.backward[norm2_backward] = {"norm2", {x_mid, rstd2}};
  spec.backward[out_proj_backward] = {"out_proj", {o}};
  spec.backward[attention_backward] = {"attention", {q, k, v, o, lse}};
  spec.backward[qkv_backward] = {"qkv", {h1}};
  spec.backward[norm1_backward] = {"norm1", {x, rstd1}};
  return spec;
}

}  // namespace spillway::model
