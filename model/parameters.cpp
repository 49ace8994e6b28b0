// parameters.cpp - see parameters.h.
#include "model/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "kernels/fill.h"
#include "runtime/cuda.h"

namespace spillway::model {
namespace {

constexpr float kInitialStd = 0.02f;
constexpr const char* kEmbedding = "model.embed_tokens.weight";
// Weights in 16 bits pass through 2 MiB of device memory, so that loading them peaks no higher than keeping them.
constexpr std::int64_t kStagingElements = std::int64_t{1} << 20;

bool is_norm(const std::string& name) {
  return name.ends_with("norm.weight");
}
bool is_bias(const std::string& name) {
  return name.ends_with(".bias");
}

// The seed of tensor `index`: a hash (MurmurHash3's 64-bit finalizer). fill_random counts up from its seed in fixed
// steps, so seeds that such a step leads to and from would give the same weights again, shifted by an element.
std::uint64_t tensor_seed(std::uint64_t seed, std::size_t index) {
  std::uint64_t z = seed;
  for (const std::uint64_t next : {std::uint64_t{0}, std::uint64_t{index} + 1}) {
    z ^= next;
    z = (z ^ (z >> 33)) * 0xff51afd7ed558ccdu;
    z = (z ^ (z >> 33)) * 0xc4ceb9fe1a85ec53u;
    z ^= z >> 33;
  }
  return z;
}

void check_stored(const Parameter& p, const StoredTensor& stored) {
  if (stored.shape != p.shape)
    throw Error(fmt::format("{} has shape ({}) in the file; this model's is ({})", p.name,
                            fmt::join(stored.shape, ", "), fmt::join(p.shape, ", ")));
  if (stored.dtype != Dtype::f32 && stored.dtype != Dtype::f16 && stored.dtype != Dtype::bf16)
    throw Error(fmt::format("{} is stored as {}; weights must be F32, F16 or BF16", p.name, to_string(stored.dtype)));
}

// Some files of tied models carry the head all the same; then it must be the embedding.
void check_tied_head(const Safetensors& files) {
  const StoredTensor* head = files.find("lm_head.weight");
  if (!head) return;
  const StoredTensor& embedding = files.at(kEmbedding);
  if (head->dtype != embedding.dtype || head->shape != embedding.shape ||
      std::memcmp(head->data.data(), embedding.data.data(), head->data.size()) != 0)
    throw Error(fmt::format("lm_head.weight differs from {}, but config.json ties them (\"tie_word_embeddings\": true)",
                            kEmbedding));
}

}  // namespace

Parameters::Parameters(const Config& config, memory::Allocator& allocator, cudaStream_t stream)
    : config_(config), allocator_(allocator), stream_(stream) {
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    std::int64_t elements = 1;
    for (const std::int64_t n : shape) elements = checked_mul(elements, n, name.c_str());
    Parameter p;
    p.value = Tensor<float>(allocator, elements, memory::Category::parameter, stream, name);
    p.name = std::move(name);
    p.shape = std::move(shape);
    all_.push_back(std::move(p));
    return all_.size() - 1;
  };
  const std::int64_t d = config.d, q = config.q_width(), kv = config.kv_width(), f = config.ffn;
  add(kEmbedding, {config.vocab, d});
  struct Indices {
    std::size_t norm1, q, k, v, q_bias, k_bias, v_bias, o, norm2, gate, up, down;
  };
  std::vector<Indices> indices;
  for (std::int64_t l = 0; l < config.layers; ++l) {
    const auto name = [&](const char* rest) { return fmt::format("model.layers.{}.{}", l, rest); };
    Indices i{};
    i.norm1 = add(name("input_layernorm.weight"), {d});
    i.q = add(name("self_attn.q_proj.weight"), {q, d});
    i.k = add(name("self_attn.k_proj.weight"), {kv, d});
    i.v = add(name("self_attn.v_proj.weight"), {kv, d});
    if (config.qkv_bias) {
      i.q_bias = add(name("self_attn.q_proj.bias"), {q});
      i.k_bias = add(name("self_attn.k_proj.bias"), {kv});
      i.v_bias = add(name("self_attn.v_proj.bias"), {kv});
    }
    i.o = add(name("self_attn.o_proj.weight"), {d, q});
    i.norm2 = add(name("post_attention_layernorm.weight"), {d});
    i.gate = add(name("mlp.gate_proj.weight"), {f, d});
    i.up = add(name("mlp.up_proj.weight"), {f, d});
    i.down = add(name("mlp.down_proj.weight"), {d, f});
    indices.push_back(i);
  }
  final_norm_index_ = add("model.norm.weight", {d});
  if (!config.tied) head_index_ = add("lm_head.weight", {config.vocab, d});

  // Pointers only now: all_ does not move any more.
  for (const Indices& i : indices) {
    const auto at = [&](std::size_t index) { return &all_[index]; };
    const auto bias = [&](std::size_t index) { return config.qkv_bias ? &all_[index] : nullptr; };
    layers_.push_back({at(i.norm1), at(i.q), at(i.k), at(i.v), bias(i.q_bias), bias(i.k_bias), bias(i.v_bias), at(i.o),
                       at(i.norm2), at(i.gate), at(i.up), at(i.down)});
  }
}

void Parameters::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    Parameter& p = all_[i];
    if (is_norm(p.name))
      kernels::fill(p.value.data(), 1.f, p.elements(), stream_);
    else if (is_bias(p.name))
      kernels::fill(p.value.data(), 0.f, p.elements(), stream_);
    else
      kernels::fill_random(p.value.data(), kInitialStd, tensor_seed(seed, i), p.elements(), stream_);
  }
}

void Parameters::load(const Safetensors& files) {
  // Everything is checked before the first byte is copied.
  std::int64_t widened = 0;  // elements of the largest tensor that comes in 16 bits
  for (const Parameter& p : all_) {
    const StoredTensor& stored = files.at(p.name);
    check_stored(p, stored);
    if (stored.dtype != Dtype::f32) widened = std::max(widened, p.elements());
  }
  if (config_.tied) check_tied_head(files);

  {
    const Tensor<std::uint16_t> staging(allocator_, std::min(widened, kStagingElements), memory::Category::workspace,
                                        stream_, "weights in 16 bits");
    for (Parameter& p : all_) upload(p, files.at(p.name), staging);
    check(cudaStreamSynchronize(stream_));
  }
  if (widened > 0) allocator_.release_cached();  // training reserves the same, wherever its weights came from
}

// To the device as they are stored; 16 bits are widened there, a piece at a time.
void Parameters::upload(Parameter& p, const StoredTensor& stored, const Tensor<std::uint16_t>& staging) {
  const auto copy = [&](void* to, std::size_t begin, std::size_t bytes) {
    check(cudaMemcpyAsync(to, stored.data.data() + begin, bytes, cudaMemcpyHostToDevice, stream_));
  };
  if (stored.dtype == Dtype::f32) return copy(p.value.data(), 0, stored.data.size());
  const auto format = stored.dtype == Dtype::f16 ? kernels::Half::float16 : kernels::Half::bfloat16;
  for (std::int64_t begin = 0; begin < p.elements(); begin += staging.size()) {
    const std::int64_t n = std::min(staging.size(), p.elements() - begin);
    copy(staging.data(), static_cast<std::size_t>(begin) * sizeof(std::uint16_t),
         static_cast<std::size_t>(n) * sizeof(std::uint16_t));
    kernels::widen(p.value.data() + begin, staging.data(), format, n, stream_);
  }
}

float* Parameters::gradient(Parameter& p) {
  if (!p.gradient)
    p.gradient = Tensor<float>(allocator_, p.elements(), memory::Category::gradient, stream_, p.name + ".gradient");
  return p.gradient.data();
}

void Parameters::clear_gradients() {
  for (Parameter& p : all_) p.gradient.reset();
}

}  // namespace spillway::model
