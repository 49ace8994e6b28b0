// synthetic_layer.h - a layer of small integers: enough operators, fan-in and fan-out to exercise plans, and arithmetic
// whose every mistake (a stale read, a lost write, a wrong order) changes the final number. Its operators run as
// kernels of hostcuda; its reference runs in one plain loop.
#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "runtime/activation/store.h"
#include "runtime/hostcuda/stream.h"

namespace spillway::test {

using Value = std::uint32_t;
inline constexpr int kValues = 300;  // a tensor; not a multiple of anything

// x -> a, b (one operator, two outputs); a, b -> c; c, x -> d; b -> e; d, e -> next x. The backward pass reads all but
// e, and some twice.
inline activation::LayerSpec synthetic_spec() {
  const std::int64_t bytes = kValues * sizeof(Value);
  activation::LayerSpec spec;
  for (const char* name : {"x", "a", "b", "c", "d", "e"}) spec.tensors.push_back({name, "(n)", bytes});
  spec.forward = {{"ab", {0}, {1, 2}, false, 10, 1},
                  {"c", {1, 2}, {3}, false, 20, 1},
                  {"d", {3, 0}, {4}, false, 30, 1},
                  {"e", {2}, {5}, false, 40, 1},
                  {"next", {4, 5}, {}, true, 50, 1}};
  spec.backward = {{"bd", {4, 3}}, {"bc", {3, 1, 2}}, {"ba", {1, 0}}};
  return spec;
}

inline Value mix(Value a, Value b) {
  return (a ^ (a >> 15)) * 2654435761u + b * 40503u + 1u;
}

class SyntheticOperators final : public activation::StepOperators {
 public:
  SyntheticOperators(activation::Store& store, memory::Allocator& allocator, cudaStream_t compute, Value seed)
      : store_(store), compute_(compute), seed_(seed), sums_(kValues) {
    memory_ = allocator.allocate(kValues * sizeof(Value), memory::Category::workspace, compute, "gradient");
  }
  void embed() override {
    Value* x = at(0, 0);
    Value* g = gradient();
    run([=, seed = seed_] {
      for (int i = 0; i < kValues; ++i) {
        x[i] = mix(seed, static_cast<Value>(i));
        g[i] = 0;
      }
    });
  }
  void forward(int layer, int op) override {
    const auto& o = store_.spec().forward[static_cast<std::size_t>(op)];
    std::vector<Value*> in, out;
    for (const int t : o.reads) in.push_back(at(layer, t));
    for (const int t : o.writes) out.push_back(at(layer, t));
    if (o.writes_next_input) out.push_back(at(layer + 1, 0));
    run([=] { compute_forward(layer, op, in, out); });
  }
  void recompute(int layer, int op) override { forward(layer, op); }
  void head() override { fold({at(store_.schedule().layers, 0)}, 7); }
  void backward(int layer, int op) override {
    std::vector<Value*> in;
    for (const int t : store_.spec().backward[static_cast<std::size_t>(op)].reads) in.push_back(at(layer, t));
    fold(in, static_cast<Value>(100 * layer + op));
  }
  void embed_backward() override {}
  void optimizer() override {}

  // After a step: what the backward pass made of everything it read.
  std::vector<Value> result() {
    check(cudaMemcpyAsync(sums_.data(), gradient(), sums_.size() * sizeof(Value), cudaMemcpyDeviceToHost, compute_));
    check(cudaStreamSynchronize(compute_));
    return sums_;
  }

  static void compute_forward(int layer, int op, const std::vector<Value*>& in, const std::vector<Value*>& out) {
    for (std::size_t o = 0; o < out.size(); ++o)
      for (int i = 0; i < kValues; ++i) {
        Value v = static_cast<Value>(1000 * layer + 10 * op) + static_cast<Value>(o);
        for (const Value* t : in) v = mix(v, t[i]);
        out[o][i] = v;
      }
  }
  static void compute_fold(Value* g, const std::vector<Value*>& in, Value salt) {
    for (const Value* t : in)
      for (int i = 0; i < kValues; ++i) g[i] = mix(g[i] + salt, t[i]);
  }

 private:
  Value* at(int layer, int tensor) const { return static_cast<Value*>(store_.tensor(layer, tensor)); }
  Value* gradient() const { return static_cast<Value*>(memory_.data()); }
  void run(std::function<void()> task) {
    check(hostcuda::enqueue("cudaLaunchKernel", "task", compute_, std::move(task)));
  }
  void fold(std::vector<Value*> in, Value salt) {
    run([g = gradient(), in = std::move(in), salt] { compute_fold(g, in, salt); });
  }

  activation::Store& store_;
  cudaStream_t compute_;
  Value seed_;
  memory::Allocation memory_;
  std::vector<Value> sums_;
};

// The same step without store, schedule, streams or plan.
inline std::vector<Value> reference_result(const activation::LayerSpec& spec, int layers, Value seed) {
  const auto tensor = [] { return std::vector<Value>(kValues); };
  std::vector<std::vector<std::vector<Value>>> all(static_cast<std::size_t>(layers) + 1);
  for (auto& layer : all) layer.assign(spec.tensors.size(), tensor());
  for (int i = 0; i < kValues; ++i) all[0][0][static_cast<std::size_t>(i)] = mix(seed, static_cast<Value>(i));
  for (int l = 0; l < layers; ++l)
    for (int op = 0; op < static_cast<int>(spec.forward.size()); ++op) {
      const auto& o = spec.forward[static_cast<std::size_t>(op)];
      std::vector<Value*> in, out;
      for (const int t : o.reads) in.push_back(all[static_cast<std::size_t>(l)][static_cast<std::size_t>(t)].data());
      for (const int t : o.writes) out.push_back(all[static_cast<std::size_t>(l)][static_cast<std::size_t>(t)].data());
      if (o.writes_next_input) out.push_back(all[static_cast<std::size_t>(l) + 1][0].data());
      SyntheticOperators::compute_forward(l, op, in, out);
    }
  std::vector<Value> g(kValues, 0);
  SyntheticOperators::compute_fold(g.data(), {all[static_cast<std::size_t>(layers)][0].data()}, 7);
  for (int l = layers - 1; l >= 0; --l)
    for (int op = 0; op < static_cast<int>(spec.backward.size()); ++op) {
      std::vector<Value*> in;
      for (const int t : spec.backward[static_cast<std::size_t>(op)].reads)
        in.push_back(all[static_cast<std::size_t>(l)][static_cast<std::size_t>(t)].data());
      SyntheticOperators::compute_fold(g.data(), in, static_cast<Value>(100 * l + op));
    }
  return g;
}

inline activation::Plan random_plan(std::mt19937_64& random, const activation::LayerSpec& spec, int layers) {
  activation::Plan plan;
  plan.name = "random";
  plan.window = 2 + static_cast<int>(random() % 3);
  for (int l = 0; l < layers; ++l) {
    std::vector<activation::Placement> row;
    for (std::size_t t = 0; t < spec.tensors.size(); ++t)
      row.push_back(static_cast<activation::Placement>(random() % 3));
    if (row[0] == activation::Placement::recompute) row[0] = activation::Placement::offload;
    plan.placements.push_back(row);
  }
  return plan;
}

}  // namespace spillway::test
