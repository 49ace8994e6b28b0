// reference.h - what kernel results are compared with: Eigen matrices in double, and one measure of error. The inputs
// are seeded, so that a failure repeats.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "test/fixture.h"
// GCC 12 takes the undefined registers of its own AVX-512 intrinsics for a mistake of Eigen's.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <eigen3/Eigen/Core>
#pragma GCC diagnostic pop

namespace spillway::test {

using Vector = std::vector<float>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// What float kernels are held to, relative to the largest element: rounding of 2^-24 an operation, sums of up to a
// thousand terms, with room for exp's two units in the last place. A wrong formula or a lost element is far above it.
inline constexpr double kTolerance = 5e-6;

inline Vector normals(std::int64_t n, std::uint32_t seed, float deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution(0, deviation);
  Vector values(static_cast<std::size_t>(n));
  for (float& value : values) value = distribution(generator);
  return values;
}

inline Matrix matrix(const Vector& values, std::int64_t rows, std::int64_t columns) {
  BOOST_REQUIRE_EQUAL(static_cast<std::int64_t>(values.size()), rows * columns);
  using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const FloatMatrix>(values.data(), rows, columns).cast<double>();
}

// The largest difference, relative to the largest element of `expected` (absolute where that is 0); infinite where a
// result is NaN.
inline double error(const Vector& result, const Matrix& expected) {
  BOOST_REQUIRE_EQUAL(static_cast<std::int64_t>(result.size()), expected.size());
  double difference = 0, largest = 0;
  for (Eigen::Index i = 0; i < expected.size(); ++i) {
    const double e = std::abs(static_cast<double>(result[static_cast<std::size_t>(i)]) - expected.data()[i]);
    if (std::isnan(e)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, e);
    largest = std::max(largest, std::abs(expected.data()[i]));
  }
  return largest > 0 ? difference / largest : difference;
}

}  // namespace spillway::test
