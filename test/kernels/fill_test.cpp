// fill_test.cpp - constants, the seeded weights (their bits, then their distribution), the exact widening of all 2^16
// half-precision numbers, and the norm.
#include "kernels/fill.h"

#include <array>

#include "kernels/norm.h"
#include "test/kernels/device_buffer.h"
#include "test/kernels/reference.h"
#include "test/kernels/variants.h"

namespace spillway::kernels {
namespace {

using namespace spillway::test;

Vector random_weights(Index n, std::uint64_t seed, float std) {
  const Floats x(n);
  fill_random(x, std, seed, n, stream());
  return x.download();
}

BOOST_AUTO_TEST_SUITE(fill_and_norm)

BOOST_AUTO_TEST_CASE(fill_writes_every_element_and_no_other) {
  for (const Index n : {1, 7, 33, 70001})
    in_every_variant(
        [&] {
          const Floats x(Vector(static_cast<std::size_t>(n) + 2, 5));
          fill(x.get() + 1, 0.25f, n, stream());
          return Outputs{x.download()};
        },
        [&](const Outputs& out) {
          Vector expected(static_cast<std::size_t>(n) + 2, 0.25f);
          expected.front() = expected.back() = 5;
          BOOST_TEST(same_bits(out, {expected}));
        });
}

// SplitMix64's published first outputs for seed 0 fix the generator; the rest is the formula of the header.
BOOST_AUTO_TEST_CASE(random_weights_are_the_header_s_formula_bit_for_bit) {
  constexpr std::array<std::uint64_t, 3> kPublished{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f};
  const double deviation = 65536 / std::sqrt(3.) * std::sqrt(1 - std::pow(2., -32));
  Vector expected;
  for (const std::uint64_t z : kPublished) {
    std::int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<std::int64_t>(z >> 16 * i & 0xffff);
    expected.push_back(static_cast<float>(sum - 131070) * static_cast<float>(0.02f / deviation));
  }
  in_every_variant([&] { return Outputs{random_weights(3, 0, 0.02f)}; },
                   [&](const Outputs& out) { BOOST_TEST(same_bits(out, {expected})); });
}

BOOST_AUTO_TEST_CASE(random_weights_have_the_moments_they_claim_and_differ_by_seed) {
  const Index n = 1 << 18;
  const Vector x = random_weights(n, 42, 2);
  const Eigen::ArrayXd a = matrix(x, 1, n).transpose().array();
  // Standard errors of mean and deviation are 2 / 512 and 2 / 724; five of them.
  BOOST_TEST(std::abs(a.mean()) < 0.02);
  BOOST_TEST(std::abs(std::sqrt(a.square().mean()) - 2) < 0.014);
  BOOST_TEST(a.abs().maxCoeff() < 3.47 * 2);
  BOOST_TEST(!same_bits({x}, {random_weights(n, 43, 2)}));
}

// Half precision from its definition: sign, exponent, fraction.
double half_value(unsigned h, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(h >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = static_cast<double>(h & ((1u << fraction_bits) - 1)) / (1 << fraction_bits);
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

BOOST_AUTO_TEST_CASE(every_half_precision_number_widens_exactly) {
  std::vector<std::uint16_t> all(1 << 16);
  for (unsigned h = 0; h < all.size(); ++h) all[h] = static_cast<std::uint16_t>(h);
  const DeviceBuffer<std::uint16_t> device_all(all);
  for (const auto& [format, exponent_bits] : {std::pair{Half::float16, 5}, std::pair{Half::bfloat16, 8}})
    in_every_variant(
        [&, f = format] {
          const Floats out(1 << 16);
          widen(out, device_all, f, 1 << 16, stream());
          return Outputs{out.download()};
        },
        [&, bits = exponent_bits](const Outputs& out) {
          int wrong = 0;
          for (unsigned h = 0; h < all.size(); ++h) {
            const double expected = half_value(h, bits), got = out[0][h];
            if (std::isnan(expected) ? !std::isnan(got)
                                     : got != expected || std::signbit(got) != std::signbit(expected))
              BOOST_TEST_MESSAGE("number " << h << " became " << got << ", not " << expected), ++wrong;
          }
          BOOST_TEST(wrong == 0);
        },
        {1, 64, 256});
}

BOOST_AUTO_TEST_CASE(squared_norm_adds_to_its_sum_in_double) {
  for (const Index n : {1, 7, 16385, 100003}) {
    const Vector x = normals(n, 1);
    const Floats device_x(x);
    const double expected = 3 + matrix(x, 1, n).squaredNorm();
    double found = 0;
    in_every_variant(
        [&] {
          const DeviceBuffer<double> sum(std::vector<double>{3}), scratch(squared_norm_scratch(n));
          squared_norm(sum, scratch, device_x, n, stream());
          found = sum.download()[0];
          Vector bits(2);
          std::memcpy(bits.data(), &found, sizeof found);
          return Outputs{bits};
        },
        [&](const Outputs& out) {
          std::memcpy(&found, out[0].data(), sizeof found);
          BOOST_TEST(std::abs(found - expected) < 1e-13 * expected);
        },
        {1, 32, 256});
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::kernels
