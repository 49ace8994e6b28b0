// optimizer.cpp - see optimizer.h.
#include "model/optimizer.h"

#include <tuple>
#include <utility>
#include <vector>

#include "runtime/cuda.h"

namespace spillway::model {

void Optimizer::step(Parameters& parameters) {
  if (steps_ == 0) allocate_moments(parameters);
  steps_++;
  for (Parameter& p : parameters.all())
    kernels::adamw(p.value.data(), p.m.data(), p.v.data(), p.gradient.data(), p.elements(), options_, steps_,
                   run_.stream);
}

void Optimizer::allocate_moments(Parameters& parameters) const {
  const auto zeros = [&](const Parameter& p, const char* moment) {
    Tensor<float> t(run_.allocator, p.elements(), memory::Category::optimizer_state, run_.stream, p.name + moment);
    check(cudaMemsetAsync(t.data(), 0, static_cast<std::size_t>(t.bytes()), run_.stream));
    return t;
  };
  std::vector<std::pair<Tensor<float>, Tensor<float>>> moments;
  for (const Parameter& p : parameters.all()) moments.emplace_back(zeros(p, ".m"), zeros(p, ".v"));
  for (std::size_t i = 0; i < moments.size(); i++)
    std::tie(parameters.all()[i].m, parameters.all()[i].v) = std::move(moments[i]);
}

}  // namespace spillway::model
