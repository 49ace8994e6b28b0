// bfloat16_test.cpp - the second activation type. Conversion is checked over every pattern there is; matrix products
// against double; and every other kernel against its float twin (which other files hold against double): what it
// computes must be the same, rounded once where it is stored.
#include "kernels/bfloat16.h"

#include <algorithm>
#include <bit>

#include "kernels/attention.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/fill.h"
#include "kernels/key_bias.h"
#include "kernels/matmul.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;
using Halves = DeviceBuffer<bfloat16>;

constexpr double kHalfUlp = 1. / 256;  // relative: a significand has 8 bits

std::vector<bfloat16> rounded(const Vector& values) {
  std::vector<bfloat16> out;
  for (const float v : values) out.push_back(static_cast<bfloat16>(v));
  return out;
}
Vector wide(const std::vector<bfloat16>& values) {
  Vector out;
  for (const bfloat16 v : values) out.push_back(static_cast<float>(v));
  return out;
}
// Normals that bfloat16 holds exactly, so that both kernels see the same numbers.
Vector short_normals(Index n, std::uint32_t seed, float deviation = 1) {
  return wide(rounded(normals(n, seed, deviation)));
}

// Each element is the float's within one rounding. (Not its very rounding: how many terms of a sum a vector register
// takes at a time depends on the type, and the last bit of a float with it.)
void check_rounded(const Vector& result, const Vector& exact) {
  BOOST_REQUIRE_EQUAL(result.size(), exact.size());
  double largest = 0;
  for (const float x : exact) largest = std::max(largest, std::abs(static_cast<double>(x)));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double x = exact[i], off = std::abs(result[i] - x);
    BOOST_REQUIRE_MESSAGE(off <= kHalfUlp * std::abs(x) + kTolerance * largest,
                          "element " << i << ": " << result[i] << " for " << x);
  }
}

// Runs both twins on the same inputs in every variant. The halves come first, each a rounded float of `exact`; what
// stays float in both (statistics, gradients of weights) follows.
void check_twin(const Run& halves_then_floats, const Outputs& exact) {
  in_every_variant(halves_then_floats, [&](const Outputs& out) {
    BOOST_REQUIRE_EQUAL(out.size(), exact.size());
    for (std::size_t i = 0; i < out.size(); ++i) BOOST_TEST_CONTEXT("output " << i) check_rounded(out[i], exact[i]);
  });
}

BOOST_AUTO_TEST_SUITE(bfloat16_type)

BOOST_AUTO_TEST_CASE(every_pattern_widens_exactly_and_comes_back) {
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto half = std::bit_cast<bfloat16>(static_cast<std::uint16_t>(pattern));
    const auto value = static_cast<float>(half);
    BOOST_REQUIRE(std::bit_cast<std::uint32_t>(value) == pattern << 16);
    const auto back = std::bit_cast<std::uint16_t>(static_cast<bfloat16>(value));
    if (std::isnan(value))
      BOOST_REQUIRE(std::isnan(static_cast<float>(static_cast<bfloat16>(value))));
    else
      BOOST_REQUIRE(back == pattern);
  }
}

BOOST_AUTO_TEST_CASE(a_float_between_two_goes_to_the_nearer_and_a_tie_to_the_even) {
  std::mt19937 random(16);
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t low = random() % 65536, tail = i % 3 == 0 ? 0x8000 : random() % 65536;
    const auto below = std::bit_cast<float>(low << 16);
    if (!std::isfinite(below) || (low & 0x7fff) == 0x7f7f) continue;  // the next above is infinite
    const auto above = std::bit_cast<float>((low + 1) << 16), x = std::bit_cast<float>(low << 16 | tail);
    const double to_below = std::abs(double{x} - below), to_above = std::abs(double{above} - x);
    const float expected = to_below < to_above ? below : to_above < to_below ? above : low % 2 == 0 ? below : above;
    BOOST_REQUIRE(static_cast<float>(static_cast<bfloat16>(x)) == expected);
  }
  BOOST_TEST(std::isinf(static_cast<float>(static_cast<bfloat16>(3.4e38f))));
}

BOOST_AUTO_TEST_CASE(narrow_and_widen_convert_whole_arrays) {
  for (const Index n : {1, 7, 1000, 40007}) {
    const Vector x = normals(n, 1, 100);
    const Floats device_x(x);
    in_every_variant(
        [&] {
          const Halves half(n);
          const Floats back(n);
          narrow(half, device_x, n, stream());
          widen(back, half.get(), n, stream());
          return Outputs{back.download()};
        },
        [&](const Outputs& out) { BOOST_TEST(same_bits(out, {wide(rounded(x))})); });
  }
}

BOOST_AUTO_TEST_CASE(products_add_up_in_float_and_round_once) {
  const Cublas cublas(stream());
  struct Shape {
    Index m, n, k;
  };
  // Sizes at the edges of tiles; a sum longer than a packed block; a result wider than a panel of the host's product.
  std::vector<Shape> shapes{{1, 1, 1}, {13, 33, 257}, {40, 9, 1500}, {5, 70, 0}};
#ifndef SPILLWAY_FIBER
  shapes.push_back({300, 5000, 40});
#endif
  for (const auto& [m, n, k] : shapes)
    for (const float beta : {0.f, 1.f, 0.5f})
      for (const bool a_turned : {false, true})
        for (const bool b_turned : {false, true})
          BOOST_TEST_CONTEXT(m << " x " << n << " x " << k << ", beta " << beta) {
            const Vector a = short_normals(m * k, 1), b = short_normals(k * n, 2), c = short_normals(m * n, 3);
            const Halves device_a(rounded(a)), device_b(rounded(b)), half_c(rounded(c));
            const Floats float_c(c);
            const auto op = [](bool turned) { return turned ? Transpose::yes : Transpose::no; };
            matmul(cublas.get(), op(a_turned), op(b_turned), m, n, k, device_a.get(), device_b.get(), beta,
                   half_c.get(), stream());
            matmul(cublas.get(), op(a_turned), op(b_turned), m, n, k, device_a.get(), device_b.get(), beta,
                   float_c.get(), stream());
            const Matrix A = a_turned ? Matrix(matrix(a, k, m).transpose()) : matrix(a, m, k);
            const Matrix B = b_turned ? Matrix(matrix(b, n, k).transpose()) : matrix(b, k, n);
            const Matrix expected = A * B + double{beta} * matrix(c, m, n);
            BOOST_TEST(error(float_c.download(), expected) <= kTolerance);
            const Matrix halves = matrix(wide(half_c.download()), m, n);
            const double slack = 2 * kTolerance * expected.cwiseAbs().maxCoeff();
            BOOST_TEST(((halves - expected).array().abs() <= kHalfUlp * expected.array().abs() + slack).all());
          }
}

BOOST_AUTO_TEST_CASE(a_product_of_mixed_types_is_refused_as_cublas_refuses_it) {
  const Cublas cublas(stream());
  const Floats x(16);
  const float one = 1, zero = 0;
  const auto product = [&](cudaDataType a, cudaDataType b, cudaDataType c) {
    return cublasGemmEx(cublas.get(), CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, x.get(), a, 2, x.get(), b, 2, &zero,
                        x.get(), c, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  BOOST_TEST(product(CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F) == CUBLAS_STATUS_NOT_SUPPORTED);
  BOOST_TEST(product(CUDA_R_32F, CUDA_R_32F, CUDA_R_16BF) == CUBLAS_STATUS_NOT_SUPPORTED);
}

BOOST_AUTO_TEST_CASE(elementwise_kernels_round_what_their_twins_compute) {
  for (const Index n : {1, 7, 1000, 40007}) {
    const Vector a = short_normals(n, 1, 3), b = short_normals(n, 2), c = short_normals(n, 3);
    const Floats fa(a), fb(b), fc(c), s(n), sum(a), dgate(n), dup(n);
    swiglu_forward<float>(s, fa, fb, n, stream());
    swiglu_backward<float>(dgate, dup, fc, fa, fb, n, stream());
    residual_add<float>(sum, fb, n, stream());
    const Halves ha(rounded(a)), hb(rounded(b)), hc(rounded(c));
    check_twin(
        [&] {
          const Halves s2(n), sum2(rounded(a)), dgate2(n), dup2(n);
          swiglu_forward<bfloat16>(s2, ha, hb, n, stream());
          swiglu_backward<bfloat16>(dgate2, dup2, hc, ha, hb, n, stream());
          residual_add<bfloat16>(sum2, hb, n, stream());
          return Outputs{wide(s2.download()), wide(sum2.download()), wide(dgate2.download()), wide(dup2.download())};
        },
        {s.download(), sum.download(), dgate.download(), dup.download()});
  }
}

BOOST_AUTO_TEST_CASE(norm_and_bias_round_what_their_twins_compute_and_keep_statistics_and_sums_in_float) {
  for (const auto& [rows, d] : {std::pair<Index, Index>{1, 1}, {7, 33}, {75, 384}}) {
    const Vector x = short_normals(rows * d, 1, 3), weight = normals(d, 2), dy = short_normals(rows * d, 3);
    const Vector before = short_normals(rows * d, 4);
    const Floats fx(x), fw(weight), fdy(dy), y(rows * d), rstd(rows), dx(before), dweight(d), biased(x), dbias(d);
    const Floats scratch(rmsnorm_backward_scratch(rows, d)), bias_scratch(bias_backward_scratch(rows, d));
    rmsnorm_forward<float>(y, rstd, fx, fw, rows, d, 1e-6f, stream());
    rmsnorm_backward<float>(dx, dweight, scratch, fdy, fx, fw, rstd, rows, d, stream());
    bias_forward<float>(biased, fw, rows, d, stream());
    bias_backward<float>(dbias, bias_scratch, fdy, rows, d, stream());
    const Halves hx(rounded(x)), hdy(rounded(dy));
    check_twin(
        [&] {
          const Halves y2(rows * d), dx2(rounded(before)), biased2(rounded(x));
          const Floats rstd2(rows), dweight2(d), dbias2(d);
          rmsnorm_forward<bfloat16>(y2, rstd2, hx, fw, rows, d, 1e-6f, stream());
          rmsnorm_backward<bfloat16>(dx2, dweight2, scratch, hdy, hx, fw, rstd2, rows, d, stream());
          bias_forward<bfloat16>(biased2, fw, rows, d, stream());
          bias_backward<bfloat16>(dbias2, bias_scratch, hdy, rows, d, stream());
          const Vector floats[] = {rstd2.download(), dweight2.download(), dbias2.download()};
          BOOST_TEST(error(floats[0], matrix(rstd.download(), 1, rows)) < kTolerance);
          BOOST_TEST(error(floats[1], matrix(dweight.download(), 1, d)) < kTolerance);
          BOOST_TEST(error(floats[2], matrix(dbias.download(), 1, d)) < kTolerance);
          return Outputs{wide(y2.download()), wide(dx2.download()), wide(biased2.download())};
        },
        {y.download(), dx.download(), biased.download()});
  }
}

BOOST_AUTO_TEST_CASE(rotation_and_key_bias_round_what_their_twins_compute) {
  const Index batch = 2, seq = 9, heads = 3, head_dim = 16, n = batch * seq * heads * head_dim;
  const Vector x = short_normals(n, 1), bias = normals(heads * head_dim, 2), angles = normals(seq * head_dim / 2, 3);
  Vector cosine, sine;
  for (const float angle : angles) {
    cosine.push_back(std::cos(angle));
    sine.push_back(std::sin(angle));
  }
  const Floats fcos(cosine), fsin(sine), fbias(bias), fx(x), there(x), back(x), terms(n);
  rope_forward<float>(there, fbias, fcos, fsin, batch, seq, heads, head_dim, stream());
  rope_backward<float>(back, fcos, fsin, batch, seq, heads, head_dim, stream());
  key_bias_terms<float>(terms, fx, fcos, fsin, batch, seq, heads, head_dim, stream());
  const Halves hx(rounded(x));
  check_twin(
      [&] {
        const Halves there2(rounded(x)), back2(rounded(x));
        const Floats terms2(n);
        rope_forward<bfloat16>(there2, fbias, fcos, fsin, batch, seq, heads, head_dim, stream());
        rope_backward<bfloat16>(back2, fcos, fsin, batch, seq, heads, head_dim, stream());
        key_bias_terms<bfloat16>(terms2, hx, fcos, fsin, batch, seq, heads, head_dim, stream());
        BOOST_TEST(error(terms2.download(), matrix(terms.download(), 1, n)) < kTolerance);
        return Outputs{wide(there2.download()), wide(back2.download())};
      },
      {there.download(), back.download()});
}

BOOST_AUTO_TEST_CASE(attention_rounds_what_its_twin_computes) {
  for (const AttentionShape& s : {AttentionShape{2, 7, 4, 2, 16}, {1, 75, 2, 1, 64}}) {
    const Index n = s.batch * s.seq * s.heads * s.head_dim, kv = s.batch * s.seq * s.kv_heads * s.head_dim;
    const Vector q = short_normals(n, 1), k = short_normals(kv, 2), v = short_normals(kv, 3),
                 dout = short_normals(n, 4);
    const Floats fq(q), fk(k), fv(v), fdout(dout), o(n), lse(s.batch * s.heads * s.seq), dq(n), dk(kv), dv(kv);
    const Floats scratch(attention_backward_scratch(s));
    attention_forward<float>(o, lse, fq, fk, fv, s, stream());
    // Backward reads the stored output, which in bfloat16 is the rounded one.
    const Floats stored_o(wide(rounded(o.download())));
    attention_backward<float>(dq, dk, dv, scratch, fdout, fq, fk, fv, stored_o, lse, s, stream());
    const Halves hq(rounded(q)), hk(rounded(k)), hv(rounded(v)), hdout(rounded(dout)), ho(rounded(o.download()));
    check_twin(
        [&] {
          const Halves o2(n), dq2(n), dk2(kv), dv2(kv);
          const Floats lse2(s.batch * s.heads * s.seq);
          attention_forward<bfloat16>(o2, lse2, hq, hk, hv, s, stream());
          attention_backward<bfloat16>(dq2, dk2, dv2, scratch, hdout, hq, hk, hv, ho, lse, s, stream());
          BOOST_TEST(error(lse2.download(), matrix(lse.download(), 1, s.batch * s.heads * s.seq)) < kTolerance);
          return Outputs{wide(o2.download()), wide(dq2.download()), wide(dk2.download()), wide(dv2.download())};
        },
        {o.download(), dq.download(), dk.download(), dv.download()});
  }
}

BOOST_AUTO_TEST_CASE(cross_entropy_and_embedding_round_what_their_twins_compute) {
  const Index rows = 5, vocab = 1501, d = 33;
  const Vector logits = short_normals(rows * vocab, 1, 3), weight = normals(vocab * d, 2),
               dout = short_normals(rows * d, 3);
  const Ids targets(std::vector<std::int32_t>{3, -1, 1500, 0, 77}), ids(std::vector<std::int32_t>{7, 7, 1500, 0, 7});
  const Ids order(std::vector<std::int32_t>{3, 0, 1, 4, 2}), segments(std::vector<std::int32_t>{0, 1, 4, 5});
  const Floats z(logits), losses(rows), fw(weight), out(rows * d), fdout(dout), dweight(Vector(weight.size(), 0));
  cross_entropy_forward_backward<float>(losses, z, targets, rows, vocab, 0.25f, stream());
  embedding_forward<float>(out, ids, fw, rows, d, stream());
  embedding_backward<float>(dweight, fdout, ids, order, segments, 3, rows, d, stream());
  const Halves hdout(rounded(dout));
  check_twin(
      [&] {
        const Halves z2(rounded(logits)), out2(rows * d);
        const Floats losses2(rows), alone(rows), dweight2(Vector(weight.size(), 0));
        cross_entropy_forward<bfloat16>(alone, z2, targets, rows, vocab, stream());
        cross_entropy_forward_backward<bfloat16>(losses2, z2, targets, rows, vocab, 0.25f, stream());
        embedding_forward<bfloat16>(out2, ids, fw, rows, d, stream());
        embedding_backward<bfloat16>(dweight2, hdout, ids, order, segments, 3, rows, d, stream());
        BOOST_TEST(error(losses2.download(), matrix(losses.download(), 1, rows)) < kTolerance);
        BOOST_TEST(same_bits({alone.download()}, {losses2.download()}));
        BOOST_TEST(error(dweight2.download(), matrix(dweight.download(), vocab, d)) < kTolerance);
        return Outputs{wide(z2.download()), wide(out2.download())};
      },
      {z.download(), out.download()});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
