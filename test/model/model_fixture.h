// model_fixture.h - what the model's tests share: small configurations of every kind the family has, weights that leave
// nothing at zero or one, a device with nothing left over from the test before, and what a training run leaves behind.
#pragma once
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "model/trainer.h"
#include "runtime/memory/caching_allocator.h"
#include "test/device_controls.h"
#include "test/fixture.h"

namespace spillway::test {

// Under a sanitizer or with fibers everything takes ten times as long: there, tests take the smallest sizes that show
// the same, and those that only compute more are left to the host build.
#if defined(SPILLWAY_FIBER) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSlowBuild = true;
#else
inline constexpr bool kSlowBuild = false;
#endif

// A fresh allocator on a device without faults.
struct Machine {
  explicit Machine(memory::AllocatorOptions options = {}) : allocator(device, options) {}
  memory::CudaDeviceMemory device;
  memory::CachingAllocator allocator;
};

// Restores the host device's knobs when a test is over, however it ends.
struct HostDevice {
  HostDevice() { hostcuda::reset_faults(); }
  ~HostDevice() {
    hostcuda::reset_faults();
    hostcuda::set_pool_threads(threads_);
    hostcuda::set_books_only(false);
  }

 private:
  int threads_ = hostcuda::pool_threads();
};

// Tied head, biased projections, grouped heads: Qwen2's small models.
inline model::Config tied_config() {
  model::Config c;
  c.name = "test-tied";
  c.vocab = 83, c.d = 48, c.layers = 3, c.heads = 4, c.kv_heads = 2, c.head_dim = 16, c.ffn = 72;
  c.max_positions = 64, c.rope_theta = 1e4, c.tied = true, c.qkv_bias = true;
  return c;
}
// A head of its own, no bias, as many key heads as query heads: Llama's shape. heads * head_dim differs from d.
inline model::Config untied_config() {
  model::Config c = tied_config();
  c.name = "test-untied";
  c.vocab = 61, c.d = 40, c.layers = 2, c.heads = 2, c.kv_heads = 2, c.head_dim = 32, c.ffn = 56;
  c.tied = false, c.qkv_bias = false, c.rms_eps = 1e-5f;
  return c;
}

inline data::TokenBatch random_batch(const model::Config& c, std::int64_t batch, std::int64_t seq, unsigned seed) {
  std::mt19937 generator(seed);
  data::TokenBatch tokens{batch, seq, {}};
  for (std::int64_t i = 0; i < batch * seq; i++)
    tokens.ids.push_back(static_cast<std::int32_t>(generator() % static_cast<unsigned>(c.vocab)));
  return tokens;
}

inline void write(Tensor<float>& tensor, const std::vector<float>& values) {
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(tensor.data(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
}

// Every parameter random, norms around 1 and biases around 0, large enough that every operator matters.
inline void randomize(model::Parameters& parameters, unsigned seed) {
  std::mt19937 generator(seed);
  for (model::Parameter& p : parameters.all()) {
    const bool vector = p.shape.size() == 1;
    const bool norm = p.name.find("norm") != std::string::npos;
    const double std = vector ? 0.2 : 1.0 / std::sqrt(static_cast<double>(p.shape.back()));
    std::normal_distribution<double> draw(norm ? 1.0 : 0.0, std);
    std::vector<float> values(static_cast<std::size_t>(p.elements()));
    for (float& value : values) value = static_cast<float>(draw(generator));
    write(p.value, values);
  }
}

using NamedTensors = std::map<std::string, std::vector<float>>;

inline NamedTensors gradients(const model::Parameters& parameters) {
  NamedTensors all;
  for (const model::Parameter& p : parameters.all()) all[p.name] = model::read_back(p.gradient);
  return all;
}
inline NamedTensors parameter_values(const model::Parameters& parameters) {
  NamedTensors all;
  for (const model::Parameter& p : parameters.all()) all[p.name] = model::read_back(p.value);
  return all;
}

// Everything that a few steps produce, for comparison bit by bit.
struct Run {
  std::vector<float> losses;            // one a step, then the evaluation loss
  std::vector<NamedTensors> gradients;  // one a step
  NamedTensors parameters;              // after the last
  bool operator==(const Run&) const = default;
};

inline Run train(model::Trainer& trainer, const data::TokenBatch& tokens, int steps) {
  Run run;
  trainer.set_before_update([&](model::Parameters& p) { run.gradients.push_back(gradients(p)); });
  for (int i = 0; i < steps; i++) run.losses.push_back(trainer.step(tokens).loss);
  trainer.set_before_update(nullptr);
  run.losses.push_back(trainer.evaluate(tokens));
  run.parameters = parameter_values(trainer.parameters());
  return run;
}

// The first difference between two runs, for a test's message; empty when there is none, bit for bit.
inline std::string difference(const Run& a, const Run& b) {
  const auto tensors = [](const NamedTensors& p, const NamedTensors& q) -> std::string {
    for (const auto& [name, values] : p) {
      const auto& others = q.at(name);
      for (std::size_t i = 0; i < values.size(); i++)
        if (values[i] != others[i])  // NaN differs from itself, as it should here
          return name + "[" + std::to_string(i) + "]: " + std::to_string(values[i]) + " against " +
                 std::to_string(others[i]);
    }
    return {};
  };
  if (a.losses != b.losses) return "losses differ";
  for (std::size_t step = 0; step < a.gradients.size(); step++)
    if (const std::string d = tensors(a.gradients[step], b.gradients[step]); !d.empty())
      return "step " + std::to_string(step) + ", gradient of " + d;
  return tensors(a.parameters, b.parameters);
}

}  // namespace spillway::test
