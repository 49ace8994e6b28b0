// parameters.h - the weights on the device, by their Hugging Face names, with their gradients (allocated when the
// backward pass first writes them) and AdamW's two moments (allocated at the first optimizer step).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/safetensors.h"
#include "runtime/tensor.h"

namespace spillway::model {

struct Parameter {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  Tensor<float> value, gradient, m, v;
  std::int64_t elements() const { return value.size(); }
};

class Parameters {
 public:
  // Allocates every value. Tied models have no lm_head of their own.
  Parameters(const Config& config, memory::Allocator& allocator, cudaStream_t stream);

  // Seeded: weights N(0, 0.02)-like (kernels::fill_random), norms 1, biases 0; each tensor from (seed, its index).
  void initialize(std::uint64_t seed);
  // From files; tensors that the model does not have are ignored. A tied model may carry a redundant lm_head, which
  // must then equal the embedding. Error, before anything is copied: a tensor missing, of another shape, or not of
  // floats.
  void load(const Safetensors& files);

  // The gradient's memory, allocated on first use after clear_gradients.
  float* gradient(Parameter& p);
  void clear_gradients();

  Parameter& embedding() { return all_[0]; }
  Parameter& head() { return config_.tied ? all_[0] : all_[head_index_]; }
  Parameter& final_norm() { return all_[final_norm_index_]; }
  struct Layer {
    Parameter *norm1, *q, *k, *v, *q_bias, *k_bias, *v_bias, *o, *norm2, *gate, *up, *down;  // biases null without
  };
  const Layer& layer(int i) const { return layers_.at(static_cast<std::size_t>(i)); }
  std::vector<Parameter>& all() { return all_; }
  const std::vector<Parameter>& all() const { return all_; }

 private:
  void upload(Parameter& p, const StoredTensor& stored, const Tensor<std::uint16_t>& staging);

  Config config_;
  memory::Allocator& allocator_;
  cudaStream_t stream_;
  std::vector<Parameter> all_;
  std::vector<Layer> layers_;
  std::size_t head_index_ = 0, final_norm_index_ = 0;
};

}  // namespace spillway::model
