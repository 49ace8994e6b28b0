// weight.h - a weight in the type that a matrix product takes. Weights are kept in float: for a product in bfloat16 a
// rounded copy is made just for it and freed behind it, so that no second set of weights stands in memory. Making it
// costs one pass over the weight, little beside a product with hundreds of rows.
#pragma once
#include <type_traits>

#include "kernels/fill.h"
#include "model/execution.h"
#include "model/parameters.h"

namespace spillway::model {

template <class A>
class Weight {
 public:
  Weight(const Parameter& parameter, const Execution& run) : data_(nullptr) {
    if constexpr (std::is_same_v<A, float>) {
      data_ = parameter.value.data();
    } else {
      rounded_ = run.workspace<A>(parameter.elements(), "rounded weight");
      kernels::narrow(rounded_.data(), parameter.value.data(), parameter.elements(), run.stream);
      data_ = rounded_.data();
    }
  }
  const A* data() const { return data_; }

 private:
  Tensor<A> rounded_;  // empty in float
  const A* data_;
};

}  // namespace spillway::model
