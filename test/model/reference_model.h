// reference_model.h - the transformer's forward pass in double, written as a textbook writes it: one sequence at a
// time, one head at a time, whole matrices, nothing shared with the code under test. Its finite differences judge every
// gradient.
#pragma once
#define EIGEN_DONT_VECTORIZE  // GCC 12 warns inside its own AVX-512 headers
#include <cmath>
#include <eigen3/Eigen/Core>
#include <map>
#include <string>
#include <vector>

#include "data/tokens.h"
#include "model/config.h"

namespace spillway::test {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

class ReferenceModel {
 public:
  explicit ReferenceModel(model::Config config) : c_(std::move(config)) {}

  // By Hugging Face name; a vector is a matrix of one row.
  std::map<std::string, Matrix> weights;

  // (batch * seq, vocab)
  Matrix logits(const data::TokenBatch& tokens) const {
    Matrix all(tokens.batch * tokens.seq, c_.vocab);
    for (std::int64_t b = 0; b < tokens.batch; b++)
      all.middleRows(b * tokens.seq, tokens.seq) = sequence_logits(tokens.ids.data() + b * tokens.seq, tokens.seq);
    return all;
  }

  // Mean of -log softmax(logits of token i)[token i + 1].
  double loss(const data::TokenBatch& tokens) const {
    const Matrix all = logits(tokens);
    double sum = 0;
    for (std::int64_t b = 0; b < tokens.batch; b++)
      for (std::int64_t t = 0; t + 1 < tokens.seq; t++) {
        const auto row = all.row(b * tokens.seq + t);
        const std::int32_t next = tokens.ids[static_cast<std::size_t>(b * tokens.seq + t + 1)];
        const double top = row.maxCoeff();
        sum += top + std::log((row.array() - top).exp().sum()) - row(next);
      }
    return sum / static_cast<double>(tokens.batch * (tokens.seq - 1));
  }

 private:
  const Matrix& w(const std::string& name) const { return weights.at(name); }

  Matrix sequence_logits(const std::int32_t* ids, std::int64_t seq) const {
    Matrix x(seq, c_.d);
    for (std::int64_t t = 0; t < seq; t++) x.row(t) = w("model.embed_tokens.weight").row(ids[t]);
    for (std::int64_t l = 0; l < c_.layers; l++) {
      const std::string p = "model.layers." + std::to_string(l) + ".";
      x += attention(rms_norm(x, w(p + "input_layernorm.weight")), p + "self_attn.");
      x += feed_forward(rms_norm(x, w(p + "post_attention_layernorm.weight")), p + "mlp.");
    }
    x = rms_norm(x, w("model.norm.weight"));
    return x * w(c_.tied ? "model.embed_tokens.weight" : "lm_head.weight").transpose();
  }

  Matrix rms_norm(const Matrix& x, const Matrix& weight) const {
    Matrix y(x.rows(), x.cols());
    for (Eigen::Index t = 0; t < x.rows(); t++) {
      const double mean_square = x.row(t).squaredNorm() / static_cast<double>(x.cols());
      y.row(t) = x.row(t).cwiseProduct(weight.row(0)) / std::sqrt(mean_square + static_cast<double>(c_.rms_eps));
    }
    return y;
  }

  Matrix project(const Matrix& h, const std::string& name) const {
    Matrix y = h * w(name + ".weight").transpose();
    if (c_.qkv_bias) y.rowwise() += w(name + ".bias").row(0);
    return y;
  }

  // Rotates one head's (seq, head_dim) by position: dimension i pairs with i + head_dim / 2.
  Matrix rotate(const Matrix& head) const {
    const std::int64_t half = c_.head_dim / 2;
    Matrix y = head;
    for (Eigen::Index t = 0; t < head.rows(); t++)
      for (std::int64_t i = 0; i < half; i++) {
        const double angle = static_cast<double>(t) /
                             std::pow(c_.rope_theta, 2.0 * static_cast<double>(i) / static_cast<double>(c_.head_dim));
        y(t, i) = head(t, i) * std::cos(angle) - head(t, i + half) * std::sin(angle);
        y(t, i + half) = head(t, i + half) * std::cos(angle) + head(t, i) * std::sin(angle);
      }
    return y;
  }

  Matrix attention(const Matrix& h, const std::string& p) const {
    const Matrix q = project(h, p + "q_proj"), k = project(h, p + "k_proj"), v = project(h, p + "v_proj");
    const std::int64_t D = c_.head_dim, group = c_.heads / c_.kv_heads;
    Matrix o(h.rows(), c_.heads * D);
    for (std::int64_t head = 0; head < c_.heads; head++) {
      const Matrix qh = rotate(q.middleCols(head * D, D)), kh = rotate(k.middleCols(head / group * D, D));
      Matrix scores = qh * kh.transpose() / std::sqrt(static_cast<double>(D));
      for (Eigen::Index t = 0; t < scores.rows(); t++) {
        const double top = scores.row(t).head(t + 1).maxCoeff();
        for (Eigen::Index u = 0; u < scores.cols(); u++) scores(t, u) = u <= t ? std::exp(scores(t, u) - top) : 0.0;
        scores.row(t) /= scores.row(t).sum();
      }
      o.middleCols(head * D, D) = scores * v.middleCols(head / group * D, D);
    }
    return o * w(p + "o_proj.weight").transpose();
  }

  Matrix feed_forward(const Matrix& h, const std::string& p) const {
    const Matrix gate = h * w(p + "gate_proj.weight").transpose(), up = h * w(p + "up_proj.weight").transpose();
    const Matrix s = gate.array() / (1.0 + (-gate.array()).exp()) * up.array();
    return s * w(p + "down_proj.weight").transpose();
  }

  model::Config c_;
};

}  // namespace spillway::test
