// saved_tensors_test.cpp - the table of saved tensors is what every plan, schedule and forecast believes, so it is held
// against the block itself: each operator is run with NaN in everything that the table says it does not read, and with
// NaN in each tensor that it is said to read; and what its launches declare is counted.
#include "model/saved_tensors.h"

#include <cmath>

#include "kernels/bfloat16.h"
#include "model/decoder_block.h"
#include "test/bad_input.h"
#include "test/model/model_fixture.h"

namespace spillway::test {
namespace {

using model::ForwardOp;
using Values = std::vector<std::vector<float>>;  // [tensor]; the last is the next layer's input
constexpr int kNextInput = model::kSavedTensors;

struct NoOperators : activation::StepOperators {
  void embed() override {}
  void forward(int, int) override {}
  void recompute(int, int) override {}
  void head() override {}
  void backward(int, int) override {}
  void embed_backward() override {}
  void optimizer() override {}
};

// A schedule that only allocates: one layer's saved tensors and the next input then stand in memory together.
activation::Schedule everything_in_memory() {
  activation::Schedule schedule;
  schedule.layers = 1;
  using Kind = activation::Action::Kind;
  for (int t = 0; t < model::kSavedTensors; t++) schedule.actions.push_back({Kind::allocate, 0, t});
  schedule.actions.push_back({Kind::allocate, 1, 0});
  return schedule;
}

model::Config one_layer(model::Config config) {
  config.layers = 1;
  return config;
}

// One decoder block whose saved tensors can be read, spoilt and restored.
struct Layer {
  static constexpr std::int64_t kBatch = 2, kSeq = 7;

  Layer(const model::Config& c, Machine& machine)
      : config(one_layer(c)),
        spec(model::layer_spec(config, kBatch, kSeq, sizeof(float))),
        stream("layer"),
        cublas(stream.get()),
        run{machine.allocator, stream.get(), cublas.get()},
        parameters(config, machine.allocator, stream.get()),
        block(config, kBatch, kSeq, run),
        store(spec, activation::make_plan("baseline", spec, 1), everything_in_memory(), machine.allocator,
              stream.get()),
        saved(store, 0),
        weights(parameters.layer(0)) {
    randomize(parameters, 1);
    NoOperators nothing;
    store.run(nothing);
    for (int t = 0; t <= kNextInput; t++) set(t, random_values(elements(t), static_cast<unsigned>(t)));
    for (int op = 0; op < model::kForwardOps; op++) forward(op);
  }

  std::size_t elements(int t) const {
    return static_cast<std::size_t>(spec.tensors[static_cast<std::size_t>(t % kNextInput)].bytes) / sizeof(float);
  }
  float* address(int t) const { return static_cast<float*>(t == kNextInput ? store.tensor(1, 0) : store.tensor(0, t)); }
  static std::vector<float> random_values(std::size_t n, unsigned seed) {
    std::mt19937 generator(seed + 1);
    std::normal_distribution<float> draw;
    std::vector<float> values(n);
    for (float& value : values) value = draw(generator);
    return values;
  }

  void set(int t, const std::vector<float>& values) const {
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(address(t), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  }
  void spoil(int t) const { set(t, std::vector<float>(elements(t), NAN)); }
  Values all() const {
    check(cudaDeviceSynchronize());
    Values values;
    for (int t = 0; t <= kNextInput; t++) {
      values.emplace_back(elements(t));
      check(cudaMemcpy(values.back().data(), address(t), elements(t) * sizeof(float), cudaMemcpyDeviceToHost));
    }
    return values;
  }
  void restore(const Values& values) const {
    for (int t = 0; t <= kNextInput; t++) set(t, values[static_cast<std::size_t>(t)]);
  }

  void forward(int op) const { block.forward(static_cast<ForwardOp>(op), saved, weights); }
  // What the table says that an operator writes.
  std::vector<int> outputs(int op) const {
    const activation::ForwardOperator& row = spec.forward[static_cast<std::size_t>(op)];
    std::vector<int> written = row.writes;
    if (row.writes_next_input) written.push_back(kNextInput);
    return written;
  }

  // Every gradient of a backward pass of the block, the input's among them, with NaN in `spoilt` while `at` runs.
  NamedTensors backward(int at, const std::vector<int>& spoilt) {
    const Values good = all();
    parameters.clear_gradients();
    Tensor<float> dx = run.workspace(static_cast<Index>(elements(model::x)), "dx");
    write(dx, random_values(elements(model::x), 99));
    block.begin_backward(std::move(dx));
    for (int op = 0; op < model::kBackwardOps; op++) {
      if (op == at)
        for (const int t : spoilt) spoil(t);
      block.backward(static_cast<model::BackwardOp>(op), saved, weights, parameters);
      if (op == at) restore(good);
    }
    NamedTensors result;
    for (const model::Parameter& p : parameters.all())
      if (p.gradient) result[p.name] = model::read_back(p.gradient);
    result["dx"] = model::read_back(block.end_backward());
    return result;
  }

  using Index = kernels::Index;
  model::Config config;
  activation::LayerSpec spec;
  Stream stream;
  Cublas cublas;
  model::Execution run;
  model::Parameters parameters;
  model::DecoderBlock<float> block;
  activation::Store store;
  model::SavedTensors<float> saved;
  const model::Parameters::Layer& weights;
};

std::vector<int> others(const std::vector<int>& these) {
  std::vector<int> rest;
  for (int t = 0; t <= kNextInput; t++)
    if (std::find(these.begin(), these.end(), t) == these.end()) rest.push_back(t);
  return rest;
}

struct SavedTensorsFixture : HostDevice {
  Machine machine;
};

BOOST_FIXTURE_TEST_SUITE(saved_tensors, SavedTensorsFixture)

BOOST_AUTO_TEST_CASE(every_row_has_the_name_of_its_index) {
  const activation::LayerSpec spec = model::layer_spec(tied_config(), 2, 7, 4);
  BOOST_CHECK_NO_THROW(spec.validate());
  const std::vector<std::string> names = {"x",   "rstd1", "h1",    "q",  "k",    "v",  "o",
                                          "lse", "x_mid", "rstd2", "h2", "gate", "up", "s"};
  BOOST_REQUIRE(spec.tensors.size() == names.size());
  for (std::size_t t = 0; t < names.size(); t++) BOOST_TEST(spec.tensors[t].name == names[t]);
  BOOST_TEST(spec.tensors[model::x_mid].name == "x_mid");
  BOOST_TEST(spec.tensors[model::s].name == "s");
  BOOST_TEST(spec.forward[model::attention].name == "attention");
  BOOST_TEST(spec.forward[model::down_proj].name == "down_proj");
  BOOST_TEST(spec.backward[model::attention_backward].name == "attention");
  BOOST_TEST(spec.backward[model::norm1_backward].name == "norm1");
}

BOOST_AUTO_TEST_CASE(bytes_are_the_shapes_product_and_statistics_stay_float) {
  const model::Config c = model::preset("qwen2.5-0.5b");
  for (const std::int64_t e : {4, 2}) {
    const activation::LayerSpec spec = model::layer_spec(c, 3, 768, e);
    const std::map<std::string, std::int64_t> shapes = {
        {"(B, T, d)", 3 * 768 * 896},       {"(B, T)", 3 * 768},         {"(B, T, H, D)", 3 * 768 * 14 * 64},
        {"(B, T, G, D)", 3 * 768 * 2 * 64}, {"(B, H, T)", 3 * 14 * 768}, {"(B, T, f)", 3 * 768 * 4864},
    };
    std::int64_t sum = 0;
    for (const activation::SavedTensor& t : spec.tensors) {
      const bool statistic = t.name.starts_with("rstd") || t.name == "lse";
      BOOST_TEST(t.bytes == shapes.at(t.shape) * (statistic ? 4 : e), t.name);
      sum += t.bytes;
    }
    // A token: x, h1, x_mid, h2; q, o; k, v; gate, up, s; two rstd and a log-sum-exp a head.
    BOOST_TEST(sum == 3 * 768 * ((4 * 896 + 2 * 14 * 64 + 2 * 2 * 64 + 3 * 4864) * e + (2 + 14) * 4));
  }
}

BOOST_AUTO_TEST_CASE(a_forward_operator_writes_what_the_table_says_and_all_of_it) {
  for (const model::Config& config : {tied_config(), untied_config()}) {
    Layer layer(config, machine);
    const Values good = layer.all();
    for (int op = 0; op < model::kForwardOps; op++) {
      const std::vector<int> written = layer.outputs(op);
      BOOST_TEST_CONTEXT(config.name << ", " << layer.spec.forward[static_cast<std::size_t>(op)].name) {
        for (const int t : written) layer.spoil(t);
        layer.forward(op);
        BOOST_TEST((layer.all() == good));  // written whole, and nothing else touched
        for (const int t : written) {       // and not merely left alone
          layer.set(t, Layer::random_values(layer.elements(t), 7));
          BOOST_TEST((layer.all() != good));
          layer.restore(good);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_forward_operator_reads_what_the_table_says_and_nothing_else) {
  for (const model::Config& config : {tied_config(), untied_config()}) {
    Layer layer(config, machine);
    const Values good = layer.all();
    for (int op = 0; op < model::kForwardOps; op++) {
      const std::vector<int>& reads = layer.spec.forward[static_cast<std::size_t>(op)].reads;
      const std::vector<int> written = layer.outputs(op);
      const auto outputs_are_good = [&](const std::vector<int>& spoilt) {
        for (const int t : spoilt) layer.spoil(t);
        layer.forward(op);
        const Values found = layer.all();
        layer.restore(good);
        return std::all_of(written.begin(), written.end(), [&](int t) {
          return found[static_cast<std::size_t>(t)] == good[static_cast<std::size_t>(t)];
        });
      };
      BOOST_TEST_CONTEXT(config.name << ", " << layer.spec.forward[static_cast<std::size_t>(op)].name) {
        BOOST_TEST(outputs_are_good(others(reads)));
        for (const int t : reads)
          BOOST_TEST(!outputs_are_good({t}), "does not read " << layer.spec.tensors[static_cast<std::size_t>(t)].name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_backward_operator_reads_what_the_table_says_and_nothing_else) {
  for (const model::Config& config : {tied_config(), untied_config()}) {
    Layer layer(config, machine);
    const NamedTensors good = layer.backward(-1, {});
    BOOST_TEST((good == good));  // no NaN in it
    for (int op = 0; op < model::kBackwardOps; op++) {
      const std::vector<int>& reads = layer.spec.backward[static_cast<std::size_t>(op)].reads;
      BOOST_TEST_CONTEXT(config.name << ", " << layer.spec.backward[static_cast<std::size_t>(op)].name) {
        BOOST_TEST((layer.backward(op, others(reads)) == good));
        for (const int t : reads)
          BOOST_TEST((layer.backward(op, {t}) != good),
                     "does not read " << layer.spec.tensors[static_cast<std::size_t>(t)].name);
      }
    }
  }
}

struct Declared {
  std::int64_t flops = 0, bytes = 0;
  Declared() {
    kernels::set_launch_listener(
        [](void* context, const kernels::Work& work, cudaStream_t) {
          auto* self = static_cast<Declared*>(context);
          self->flops += work.flops;
          self->bytes += work.bytes;
        },
        this);
  }
  ~Declared() { kernels::set_launch_listener(nullptr, nullptr); }
};

BOOST_AUTO_TEST_CASE(an_operator_costs_what_its_launches_declare) {
  for (const model::Config& config : {tied_config(), untied_config()}) {
    const Layer layer(config, machine);
    for (int op = 0; op < model::kForwardOps; op++) {
      const activation::ForwardOperator& row = layer.spec.forward[static_cast<std::size_t>(op)];
      const Declared declared;
      layer.forward(op);
      BOOST_TEST(row.flops == declared.flops, config.name << ", " << row.name << " flops");
      BOOST_TEST(row.bytes == declared.bytes, config.name << ", " << row.name << " bytes");
    }
  }
}

// In bfloat16 the values do not matter here, only what is declared: the rounding of each weight among it.
BOOST_AUTO_TEST_CASE(an_operator_in_bfloat16_costs_what_its_launches_declare) {
  for (const model::Config& c : {tied_config(), untied_config()}) {
    const model::Config config = one_layer(c);
    const activation::LayerSpec spec = model::layer_spec(config, 2, 7, sizeof(kernels::bfloat16));
    const Stream stream("bfloat16");
    const Cublas cublas(stream.get());
    const model::Execution run{machine.allocator, stream.get(), cublas.get()};
    model::Parameters parameters(config, machine.allocator, stream.get());
    randomize(parameters, 1);
    const model::DecoderBlock<kernels::bfloat16> block(config, 2, 7, run);
    activation::Store store(spec, activation::make_plan("baseline", spec, 1), everything_in_memory(), machine.allocator,
                            stream.get());
    NoOperators nothing;
    store.run(nothing);
    for (int op = 0; op < model::kForwardOps; op++) {
      const activation::ForwardOperator& row = spec.forward[static_cast<std::size_t>(op)];
      const Declared declared;
      block.forward(static_cast<ForwardOp>(op), model::SavedTensors<kernels::bfloat16>(store, 0), parameters.layer(0));
      BOOST_TEST(row.flops == declared.flops, config.name << ", " << row.name << " flops");
      BOOST_TEST(row.bytes == declared.bytes, config.name << ", " << row.name << " bytes");
    }
  }
}

// Sizes up to the edge of 64 bits: refused, or right by 128-bit arithmetic. UBSan sees an overflow that gives neither.
BOOST_AUTO_TEST_CASE(sizes_that_overflow_are_refused_and_all_others_are_exact) {
  int refused = 0, computed = 0;
  for (int d = 4; d <= 31; d += 9)
    for (int layers : {1, 10'000})
      for (int batch = 0; batch < 62; batch += 3)
        for (int seq = 0; seq < 31; seq += 3) {
          model::Config c = tied_config();
          c.d = c.ffn = std::int64_t{1} << d;
          c.heads = c.kv_heads = c.d / 16;
          c.layers = layers;
          const std::int64_t B = std::int64_t{1} << batch, T = std::int64_t{1} << seq;
          activation::LayerSpec spec;
          const auto message = refusal([&] { spec = model::layer_spec(c, B, T, 4); });
          if (message) {
            BOOST_REQUIRE_MESSAGE(is_one_line(*message), *message);
            refused++;
            continue;
          }
          computed++;
          const __int128 N = static_cast<__int128>(B) * T, w = c.d;
          BOOST_REQUIRE((spec.tensors[model::gate].bytes == N * w * 4));
          BOOST_REQUIRE((spec.forward[model::gate_proj].flops == 2 * N * w * w));
          BOOST_REQUIRE((spec.forward[model::gate_proj].bytes == (2 * N * w + w * w) * 4));
          BOOST_REQUIRE((spec.forward[model::attention].flops == N * (T + 1) / 2 * w * 4));
          __int128 bytes = 0, flops = 0;
          for (const auto& t : spec.tensors) bytes += t.bytes;
          for (const auto& op : spec.forward) flops = std::max<__int128>(flops, op.flops);
          BOOST_REQUIRE((bytes * layers <= INT64_MAX && flops * layers <= INT64_MAX));
        }
  BOOST_TEST(refused > 500);
  BOOST_TEST(computed > 200);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
