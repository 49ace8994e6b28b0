// head.cpp - see head.h. Shapes: N = batch * seq rows, d model width, V vocabulary, n rows of a chunk.
#include "model/head.h"

#include <algorithm>

#include "kernels/cross_entropy.h"
#include "kernels/matmul.h"
#include "kernels/rmsnorm.h"
#include "model/weight.h"
#include "runtime/cuda.h"

namespace spillway::model {
namespace {

constexpr Index kDefaultLogitsBytes = 160ll << 20;  // in float: a chunk is as many tokens in every type
constexpr Index kChunkMultiple = 64;                // rows of a chunk that suit the tiles of a matrix product

}  // namespace

Index resolve_lmhead_chunk(std::int64_t chunk, Index rows, Index vocab) {
  if (chunk < -1)
    throw Error("lmhead-chunk " + std::to_string(chunk) +
                ": must be tokens at a time (1 or more), 0 for all at once, or -1 for as many as fit in 160 MiB");
  if (chunk == 0) return rows;
  if (chunk > 0) return std::min(chunk, rows);
  const Index fit = kDefaultLogitsBytes / (vocab * Index{sizeof(float)});
  return std::min(std::max(fit / kChunkMultiple * kChunkMultiple, kChunkMultiple), rows);
}

template <class A>
Head<A>::Head(const Config& config, Index rows, std::int64_t chunk, const Execution& run)
    : config_(config), rows_(rows), chunk_(resolve_lmhead_chunk(chunk, rows, config.vocab)), run_(run) {}

template <class A>
Tensor<A> Head<A>::forward_backward(float* loss, const A* x, const DeviceBatch& batch, Parameters& parameters) const {
  const Index N = rows_, d = config_.d, V = config_.vocab;
  const Tensor<float> losses = run_.workspace(N, "losses");
  const Tensor<float> rstd = run_.workspace(N, "final rstd");
  const Tensor<A> h = normalize(rstd, x, parameters);
  const Tensor<A>& dh = h;  // each chunk of h is replaced by its gradient as soon as it has been used

  // The loss is a mean, so each position's gradient carries one share of it.
  const float share = static_cast<float>(1.0 / static_cast<double>(batch.predicted()));
  {
    const Weight<A> weight(parameters.head(), run_);  // (V, d)
    Tensor<A> logits(run_.allocator, checked_mul(chunk_, V, "logits"), memory::Category::logits, run_.stream,
                     "logits chunk");
    const Tensor<A>& dlogits = logits;
    for (Index first = 0; first < N; first += chunk_) {
      const Index n = std::min(chunk_, N - first);
      logits_of(logits, h, first, n, weight.data());
      // dlogits (n, V) = share * (softmax(logits) - onehot(target)), over the logits
      kernels::cross_entropy_forward_backward(losses.data() + first, logits.data(), batch.targets() + first, n, V,
                                              share, run_.stream);
      // dW (V, d) += dlogits^T h: the first chunk writes, the others add. With a tied head W is the embedding, to whose
      // gradient the embedding's own backward pass adds in the end.
      kernels::linear_backward_weight(run_.cublas, parameters.gradient(parameters.head()), dlogits.data(),
                                      h.data() + first * d, first == 0 ? 0.f : 1.f, n, d, V, run_.stream);
      // dh (n, d) = dlogits W, over h
      kernels::linear_backward_input(run_.cublas, dh.data() + first * d, dlogits.data(), weight.data(), 0.f, n, d, V,
                                     run_.stream);
    }
  }
  kernels::mean_loss(loss, losses.data(), N, batch.predicted(), run_.stream);

  // x = the residual stream ends here: its gradient begins at zero, and the norm adds the first term.
  Tensor<A> dx = run_.workspace<A>(N * d, "dx");
  check(cudaMemsetAsync(dx.data(), 0, static_cast<std::size_t>(dx.bytes()), run_.stream));
  Parameter& norm = parameters.final_norm();
  const Tensor<float> scratch = run_.workspace(kernels::rmsnorm_backward_scratch(N, d), "norm partial sums");
  kernels::rmsnorm_backward(dx.data(), parameters.gradient(norm), scratch.data(), dh.data(), x, norm.value.data(),
                            rstd.data(), N, d, run_.stream);
  return dx;
}

template <class A>
void Head<A>::evaluate(float* loss, const A* x, const DeviceBatch& batch, Parameters& parameters,
                       const LookAtLogits& look) const {
  const Tensor<float> losses = run_.workspace(rows_, "losses");
  const Tensor<float> rstd = run_.workspace(rows_, "final rstd");
  const Tensor<A> h = normalize(rstd, x, parameters);
  const Weight<A> weight(parameters.head(), run_);
  const Tensor<A> logits(run_.allocator, checked_mul(chunk_, config_.vocab, "logits"), memory::Category::logits,
                         run_.stream, "logits chunk");
  for (Index first = 0; first < rows_; first += chunk_) {
    const Index n = std::min(chunk_, rows_ - first);
    logits_of(logits, h, first, n, weight.data());
    kernels::cross_entropy_forward(losses.data() + first, logits.data(), batch.targets() + first, n, config_.vocab,
                                   run_.stream);
    if (look) look(first, n, logits.data());
  }
  kernels::mean_loss(loss, losses.data(), rows_, batch.predicted(), run_.stream);
}

// h (N, d) = x * rstd * w
template <class A>
Tensor<A> Head<A>::normalize(const Tensor<float>& rstd, const A* x, Parameters& parameters) const {
  Tensor<A> h = run_.workspace<A>(checked_mul(rows_, config_.d, "head's hidden states"), "final h");
  kernels::rmsnorm_forward(h.data(), rstd.data(), x, parameters.final_norm().value.data(), rows_, config_.d,
                           config_.rms_eps, run_.stream);
  return h;
}

// logits (n, V) = h[first .. first + n) (n, d) W (V, d)^T
template <class A>
void Head<A>::logits_of(const Tensor<A>& logits, const Tensor<A>& h, Index first, Index rows, const A* weight) const {
  kernels::linear_forward(run_.cublas, logits.data(), h.data() + first * config_.d, weight, rows, config_.d,
                          config_.vocab, run_.stream);
}

template class Head<float>;
template class Head<kernels::bfloat16>;

}  // namespace spillway::model
