// rope_tables.cpp - see rope_tables.h.
#include "model/rope_tables.h"

#include <cmath>
#include <vector>

#include "runtime/cuda.h"

namespace spillway::model {

RopeTables::RopeTables(const Config& config, Index seq, const Execution& run) {
  const Index half = config.head_dim / 2;
  const Index n = checked_mul(seq, half, "rope tables");
  std::vector<float> cosines(static_cast<std::size_t>(n)), sines(static_cast<std::size_t>(n));
  for (Index t = 0; t < seq; t++)
    for (Index i = 0; i < half; i++) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
      const double angle = static_cast<double>(t) * std::pow(config.rope_theta, exponent);
      cosines[static_cast<std::size_t>(t * half + i)] = static_cast<float>(std::cos(angle));
      sines[static_cast<std::size_t>(t * half + i)] = static_cast<float>(std::sin(angle));
    }

  cosine = run.workspace(n, "rope cosines");
  sine = run.workspace(n, "rope sines");
  check(cudaMemcpyAsync(cosine.data(), cosines.data(), static_cast<std::size_t>(cosine.bytes()), cudaMemcpyHostToDevice,
                        run.stream));
  check(cudaMemcpyAsync(sine.data(), sines.data(), static_cast<std::size_t>(sine.bytes()), cudaMemcpyHostToDevice,
                        run.stream));
  check(cudaStreamSynchronize(run.stream));  // the vectors end here
}

}  // namespace spillway::model
