// attention_test.cpp - causal grouped-query attention against the textbook's form in double, with the whole T x T
// matrix that the kernels never hold; its gradients are themselves checked by differences.
#include "kernels/attention.h"

#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

// The rows of one head: element (t, c) of x (B, T, heads, D).
Matrix head_rows(const Matrix& x, const AttentionShape& s, Index b, Index head) {
  return x.block(b * s.seq, head * s.head_dim, s.seq, s.head_dim);
}

struct Gradients {
  Matrix dq, dk, dv;
};
struct Reference {
  Matrix q, k, v;  // (B * T, heads * D)
  AttentionShape shape;

  Matrix probabilities(Index b, Index head, Eigen::VectorXd* lse = nullptr) const {
    const Matrix Q = head_rows(q, shape, b, head);
    const Matrix K = head_rows(k, shape, b, head / (shape.heads / shape.kv_heads));
    Matrix p = Q * K.transpose() / std::sqrt(static_cast<double>(shape.head_dim));
    for (Index t = 0; t < shape.seq; ++t) {
      const double top = p.row(t).head(t + 1).maxCoeff();
      p.row(t).head(t + 1) = (p.row(t).head(t + 1).array() - top).exp().matrix();
      p.row(t).tail(shape.seq - t - 1).setZero();
      const double sum = p.row(t).sum();
      p.row(t) /= sum;
      if (lse) (*lse)[t] = top + std::log(sum);
    }
    return p;
  }
  Matrix forward(Matrix* lse = nullptr) const {
    Matrix o = Matrix::Zero(q.rows(), q.cols());
    if (lse) lse->resize(shape.batch * shape.heads, shape.seq);
    for (Index b = 0; b < shape.batch; ++b)
      for (Index h = 0; h < shape.heads; ++h) {
        Eigen::VectorXd row(shape.seq);
        const Matrix V = head_rows(v, shape, b, h / (shape.heads / shape.kv_heads));
        o.block(b * shape.seq, h * shape.head_dim, shape.seq, shape.head_dim) = probabilities(b, h, &row) * V;
        if (lse) lse->row(b * shape.heads + h) = row;
      }
    return o;
  }
  // The softmax's Jacobian is applied row by row here, dS_t = (diag(p_t) - p_t p_t^T) dP_t: no delta.
  Gradients backward(const Matrix& dout) const {
    Gradients g{Matrix::Zero(q.rows(), q.cols()), Matrix::Zero(k.rows(), k.cols()), Matrix::Zero(v.rows(), v.cols())};
    const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
    for (Index b = 0; b < shape.batch; ++b)
      for (Index h = 0; h < shape.heads; ++h) {
        const Index kv = h / (shape.heads / shape.kv_heads), D = shape.head_dim, T = shape.seq;
        const Matrix P = probabilities(b, h), dO = head_rows(dout, shape, b, h);
        const Matrix dP = dO * head_rows(v, shape, b, kv).transpose();
        Matrix dS(T, T);
        for (Index t = 0; t < T; ++t) dS.row(t) = P.row(t).cwiseProduct(dP.row(t)) - P.row(t) * P.row(t).dot(dP.row(t));
        g.dq.block(b * T, h * D, T, D) = scale * dS * head_rows(k, shape, b, kv);
        g.dk.block(b * T, kv * D, T, D) += scale * dS.transpose() * head_rows(q, shape, b, h);
        g.dv.block(b * T, kv * D, T, D) += P.transpose() * dO;
      }
    return g;
  }
};

struct Case {
  explicit Case(const AttentionShape& s, float deviation = 1)
      : shape(s),
        q(normals(s.batch * s.seq * s.heads * s.head_dim, 1, deviation)),
        k(normals(s.batch * s.seq * s.kv_heads * s.head_dim, 2, deviation)),
        v(normals(s.batch * s.seq * s.kv_heads * s.head_dim, 3)),
        dout(normals(s.batch * s.seq * s.heads * s.head_dim, 4)) {}

  Reference reference() const {
    const Index rows = shape.batch * shape.seq, q_width = shape.heads * shape.head_dim,
                kv_width = shape.kv_heads * shape.head_dim;
    return {matrix(q, rows, q_width), matrix(k, rows, kv_width), matrix(v, rows, kv_width), shape};
  }
  // o, lse, dq, dk, dv
  Outputs run() const {
    const Index n = static_cast<Index>(q.size()), n_kv = static_cast<Index>(k.size());
    const Floats device_q(q), device_k(k), device_v(v), device_dout(dout);
    const Floats o(n), lse(shape.batch * shape.heads * shape.seq), dq(n), dk(n_kv), dv(n_kv),
        scratch(attention_backward_scratch(shape));
    attention_forward<float>(o, lse, device_q, device_k, device_v, shape, stream());
    attention_backward<float>(dq, dk, dv, scratch, device_dout, device_q, device_k, device_v, o, lse, shape, stream());
    return {o.download(), lse.download(), dq.download(), dk.download(), dv.download()};
  }
  // Verifies o, lse and the three gradients.
  Verify verify(double tolerance = kTolerance) const {
    const Reference r = reference();
    Matrix lse;
    const Matrix o = r.forward(&lse);
    const Gradients g = r.backward(matrix(dout, shape.batch * shape.seq, shape.heads * shape.head_dim));
    return [=](const Outputs& out) {
      BOOST_TEST(error(out[0], o) < tolerance);
      BOOST_TEST(error(out[1], lse) < tolerance);
      BOOST_TEST(error(out[2], g.dq) < tolerance);
      BOOST_TEST(error(out[3], g.dk) < tolerance);
      BOOST_TEST(error(out[4], g.dv) < tolerance);
    };
  }

  AttentionShape shape;
  Vector q, k, v, dout;
};

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(the_reference_gradient_agrees_with_differences) {
  const Case c({2, 5, 4, 2, 16});
  const Reference r = c.reference();
  const Matrix dout = matrix(c.dout, 10, 64);
  const Gradients g = r.backward(dout);
  const auto differences = [&](Matrix Reference::*input) {
    Matrix slopes = r.*input;
    for (Eigen::Index i = 0; i < slopes.size(); ++i) {
      Reference above = r, below = r;
      (above.*input).data()[i] += 1e-5;
      (below.*input).data()[i] -= 1e-5;
      slopes.data()[i] = (above.forward() - below.forward()).cwiseProduct(dout).sum() / 2e-5;
    }
    return slopes;
  };
  BOOST_TEST((differences(&Reference::q) - g.dq).norm() < 1e-8 * g.dq.norm());
  BOOST_TEST((differences(&Reference::k) - g.dk).norm() < 1e-8 * g.dk.norm());
  BOOST_TEST((differences(&Reference::v) - g.dv).norm() < 1e-8 * g.dv.norm());
}

BOOST_AUTO_TEST_CASE(forward_and_backward_match_double_at_lengths_that_are_no_multiple_of_a_tile) {
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 1, 16}, {2, 7, 4, 2, 16}, {1, 33, 2, 1, 32}, {2, 75, 3, 1, 64}})
    BOOST_TEST_CONTEXT("seq " << s.seq << ", head_dim " << s.head_dim) {
      const Case c(s);
      in_every_variant([&] { return c.run(); }, c.verify());
    }
}

BOOST_AUTO_TEST_CASE(head_dim_128_and_lengths_of_several_tiles_match_double) {
#ifdef SPILLWAY_FIBER
  const std::vector<AttentionShape> shapes{{1, 70, 2, 1, 128}};
#else
  const std::vector<AttentionShape> shapes{{1, 70, 2, 1, 128}, {1, 64, 2, 2, 64},  {1, 65, 1, 1, 64},
                                           {1, 129, 6, 2, 32}, {3, 200, 2, 1, 64}, {1, 768, 2, 1, 64}};
#endif
  for (const AttentionShape& s : shapes) BOOST_TEST_CONTEXT("seq " << s.seq << ", head_dim " << s.head_dim) {
      const Case c(s);
      in_every_variant([&] { return c.run(); }, c.verify(), {1, 64, 128});
    }
}

// Scores of several hundred: all weight is on one key, and exp must neither overflow nor divide by zero. The score's
// own rounding (2^-24 of 500) comes through the exponential as an error of that size in the probability.
BOOST_AUTO_TEST_CASE(scores_of_several_hundred_stay_finite_and_right) {
  const Case c({1, 40, 2, 1, 32}, 12);
  in_every_variant([&] { return c.run(); }, c.verify(2e-4), {1, 32, 128});
}

BOOST_AUTO_TEST_CASE(zero_queries_average_the_values_seen_so_far) {
  Case c({1, 50, 1, 1, 16});
  std::fill(c.q.begin(), c.q.end(), 0.f);
  const Matrix v = matrix(c.v, 50, 16);
  Matrix mean(50, 16);
  for (Index t = 0; t < 50; ++t) mean.row(t) = v.topRows(t + 1).colwise().mean();
  in_every_variant([&] { return c.run(); },
                   [&](const Outputs& out) {
                     BOOST_TEST(error(out[0], mean) < kTolerance);
                     for (Index t = 0; t < 50; ++t)
                       BOOST_TEST(std::abs(out[1][t] - std::log(static_cast<float>(t + 1))) < 1e-5f);
                   },
                   {1, 128});
}

BOOST_AUTO_TEST_CASE(what_comes_later_changes_nothing_and_a_nan_spreads_only_forward) {
  const Index T = 70, D = 16, where = 40;
  Case c({1, T, 1, 1, D});
  const Outputs clean = c.run();
  c.k[where * D + 3] = std::numeric_limits<float>::quiet_NaN();
  in_every_variant([&] { return c.run(); },
                   [&](const Outputs& out) {
                     for (Index t = 0; t < T; ++t)
                       for (Index i = 0; i < D; ++i) {
                         const std::size_t at = static_cast<std::size_t>(t * D + i);
                         if (t < where)
                           BOOST_REQUIRE(std::abs(out[0][at] - clean[0][at]) < 1e-5f);
                         else
                           BOOST_REQUIRE(std::isnan(out[0][at]));
                       }
                   },
                   {1, 128});
}

BOOST_AUTO_TEST_CASE(a_shape_that_cannot_be_computed_is_refused_in_one_line) {
  const Floats x(1);
  BOOST_TEST(attention_supports(64));
  BOOST_TEST(!attention_supports(80));
  for (const AttentionShape& s : {AttentionShape{1, 1, 1, 1, 80}, AttentionShape{1, 1, 3, 2, 64}})
    BOOST_CHECK_EXCEPTION(attention_forward<float>(x, x, x, x, x, s, stream()), std::invalid_argument,
                          [](const auto& e) { return std::string(e.what()).find('\n') == std::string::npos; });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
