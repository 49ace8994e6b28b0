// embedding_test.cpp - rows looked up, and gradients summed by token through positions sorted on the host.
#include "kernels/embedding.h"

#include <algorithm>
#include <numeric>

#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

struct Shape {
  Index n, vocab, d;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {7, 50, 33}, {75, 5, 64}, {40, 1000, 200}};

std::vector<std::int32_t> tokens_of(const Shape& s) {
  std::mt19937 generator(5);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(s.n));
  for (auto& token : tokens) token = static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(s.vocab));
  return tokens;
}

BOOST_AUTO_TEST_SUITE(embedding)

BOOST_AUTO_TEST_CASE(forward_copies_the_row_of_each_token) {
  for (const Shape& s : kShapes) {
    const Vector weight = normals(s.vocab * s.d, 1);
    const auto tokens = tokens_of(s);
    const Floats device_weight(weight);
    const Ids device_tokens(tokens);
    Vector expected;
    for (const std::int32_t token : tokens)
      expected.insert(expected.end(), weight.begin() + token * s.d, weight.begin() + (token + 1) * s.d);
    in_every_variant(
        [&] {
          const Floats out(s.n * s.d);
          embedding_forward<float>(out, device_tokens, device_weight, s.n, s.d, stream());
          return Outputs{out.download()};
        },
        [&](const Outputs& out) { BOOST_TEST(same_bits(out, {expected})); });
  }
}

BOOST_AUTO_TEST_CASE(backward_adds_each_position_to_the_row_of_its_token_and_touches_no_other) {
  for (const Shape& s : kShapes) {
    const Vector before = normals(s.vocab * s.d, 1), dout = normals(s.n * s.d, 2);
    const auto tokens = tokens_of(s);
    std::vector<std::int32_t> order(tokens.size()), segments;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return tokens[a] < tokens[b]; });
    for (std::size_t i = 0; i < order.size(); ++i)
      if (i == 0 || tokens[order[i]] != tokens[order[i - 1]]) segments.push_back(static_cast<std::int32_t>(i));
    const Index count = static_cast<Index>(segments.size());
    segments.push_back(static_cast<std::int32_t>(s.n));

    Matrix expected = matrix(before, s.vocab, s.d);
    for (Index i = 0; i < s.n; ++i) expected.row(tokens[i]) += matrix(dout, s.n, s.d).row(i);
    const Floats device_dout(dout);
    const Ids device_tokens(tokens), device_order(order), device_segments(segments);
    in_every_variant(
        [&] {
          const Floats dweight(before);
          embedding_backward<float>(dweight, device_dout, device_tokens, device_order, device_segments, count, s.n, s.d,
                                    stream());
          return Outputs{dweight.download()};
        },
        [&](const Outputs& out) { BOOST_TEST(error(out[0], expected) < kTolerance); });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
