// trainer.cpp - see trainer.h. The store calls, in the order of its schedule, the operators below; each forwards to the
// part of the model that knows it. Nothing here depends on which plan is running.
#include "model/trainer.h"

#include <limits>
#include <utility>

#include "kernels/embedding.h"
#include "model/decoder_block.h"
#include "model/device_batch.h"
#include "model/head.h"
#include "model/optimizer.h"
#include "model/saved_tensors.h"

namespace spillway::model {
namespace {

// cuBLAS takes its sizes as int, and so do the sorted positions of the embedding's backward pass.
constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max() / 4;

const Config& checked(const Config& config, const TrainerOptions& options) {
  config.validate();
  check_shape(config, options.batch, options.seq);
  return config;
}

activation::Plan plan_of(const TrainerOptions& options, const activation::LayerSpec& spec, std::int64_t layers) {
  return options.plan ? *options.plan : activation::make_plan(options.strategy, spec, static_cast<int>(layers));
}

}  // namespace

void check_shape(const Config& config, std::int64_t batch, std::int64_t seq) {
  if (batch < 1) throw Error("batch " + std::to_string(batch) + ": must be at least 1");
  if (seq < 2) throw Error("seq " + std::to_string(seq) + ": must be at least 2, to have a next token to predict");
  if (seq > config.max_positions)
    throw Error("seq " + std::to_string(seq) + ": " + config.name + " has " + std::to_string(config.max_positions) +
                " positions");
  if (checked_mul(batch, seq, "batch x seq") > kMaxRows)
    throw Error("batch " + std::to_string(batch) + " x seq " + std::to_string(seq) + ": more tokens a step than " +
                std::to_string(kMaxRows));
  layer_spec(config, batch, seq, sizeof(float));  // refuses sizes that overflow
}

struct Trainer::Impl final : activation::StepOperators {
  Impl(const Config& c, const TrainerOptions& options, memory::CachingAllocator& allocator)
      : config(checked(c, options)),
        spec(layer_spec(config, options.batch, options.seq, sizeof(float))),
        plan(plan_of(options, spec, config.layers)),
        cublas(stream.get()),
        run{allocator, stream.get(), cublas.get()},
        parameters(config, allocator, stream.get()),
        batch(options.batch, options.seq, config.vocab, run),
        decoder(config, options.batch, options.seq, run),
        lm_head(config, options.batch * options.seq, options.lmhead_chunk, run),
        adamw(options.adamw, run),
        loss(run.workspace(1, "loss")),
        store(spec, plan, allocator, stream.get(), options.store) {}

  // ---- the operators of a step --------------------------------------------------------------------------------------

  void embed() override {
    kernels::embedding_forward(saved(0, Saved::x), batch.ids(), parameters.embedding().value.data(), rows(), config.d,
                               run.stream);
  }

  void forward(int layer, int op) override {
    decoder.forward(static_cast<ForwardOp>(op), SavedTensors(store, layer), parameters.layer(layer));
  }

  // The same operator on the same inputs gives the same bits: recomputation is running it again.
  void recompute(int layer, int op) override { forward(layer, op); }

  void head() override {
    const float* x = saved(static_cast<int>(config.layers), Saved::x);
    if (training)
      decoder.begin_backward(lm_head.forward_backward(loss.data(), x, batch, parameters));
    else
      lm_head.evaluate(loss.data(), x, batch, parameters, look_at_logits);
  }

  void backward(int layer, int op) override {
    decoder.backward(static_cast<BackwardOp>(op), SavedTensors(store, layer), parameters.layer(layer), parameters);
  }

  // dE (V, d) += rows of dx. A tied head has written dE already; else it begins at zero.
  void embed_backward() override {
    const Tensor<float> dx = decoder.end_backward();
    Parameter& embedding = parameters.embedding();
    const bool first_write = !embedding.gradient;
    float* gradient = parameters.gradient(embedding);
    if (first_write)
      check(cudaMemsetAsync(gradient, 0, static_cast<std::size_t>(embedding.gradient.bytes()), run.stream));
    kernels::embedding_backward(gradient, dx.data(), batch.ids(), batch.order(), batch.segment_begin(),
                                batch.segments(), rows(), config.d, run.stream);
  }

  void optimizer() override {
    if (before_update) {
      stream.synchronize();
      before_update(parameters);
    }
    adamw.step(parameters);
    parameters.clear_gradients();
  }

  // ---- whole passes -------------------------------------------------------------------------------------------------

  // Uploads the tokens, lets the store drive the operators, and returns the loss with the device idle. Whatever goes
  // wrong, what the pass had allocated goes back (the store has its own tensors freed and the device idle by then).
  template <class Pass>
  float run_pass(const data::TokenBatch& tokens, bool with_gradients, Pass&& pass) {
    batch.upload(tokens);
    training = with_gradients;
    try {
      pass();
      float result = 0;
      check(cudaMemcpyAsync(&result, loss.data(), sizeof result, cudaMemcpyDeviceToHost, run.stream));
      stream.synchronize();
      return result;
    } catch (...) {
      decoder.abandon_backward();
      parameters.clear_gradients();
      throw;
    }
  }

  float evaluate(const data::TokenBatch& tokens, Head::LookAtLogits look) {
    look_at_logits = std::move(look);
    const float result = run_pass(tokens, false, [&] { store.evaluate(*this); });
    look_at_logits = nullptr;
    return result;
  }

  float* saved(int layer, Saved tensor) const { return static_cast<float*>(store.tensor(layer, tensor)); }
  Index rows() const { return batch.rows(); }

  Config config;
  activation::LayerSpec spec;
  activation::Plan plan;
  Stream stream{"compute"};
  Cublas cublas;
  Execution run;
  Parameters parameters;
  DeviceBatch batch;
  DecoderBlock decoder;
  Head lm_head;
  Optimizer adamw;
  Tensor<float> loss;
  Event start{Event::Timing::on}, stop{Event::Timing::on};
  bool training = false;
  Head::LookAtLogits look_at_logits;
  std::function<void(Parameters&)> before_update;
  activation::Store store;  // last, so that it goes first: it waits for the device before anything else is destroyed
};

Trainer::Trainer(const Config& config, const TrainerOptions& options, memory::CachingAllocator& allocator)
    : impl_(std::make_unique<Impl>(config, options, allocator)) {}
Trainer::~Trainer() = default;

StepResult Trainer::step(const data::TokenBatch& tokens) {
  Impl& m = *impl_;
  StepResult result;
  result.loss = m.run_pass(tokens, true, [&] {
    m.start.record(m.run.stream);
    m.store.run(m);
    m.stop.record(m.run.stream);
  });
  result.step_ms = elapsed_ms(m.start, m.stop);
  result.cost = m.store.cost();
  return result;
}

float Trainer::evaluate(const data::TokenBatch& tokens) {
  return impl_->evaluate(tokens, nullptr);
}

std::vector<float> Trainer::logits(const data::TokenBatch& tokens) {
  Impl& m = *impl_;
  const Index vocab = m.config.vocab;
  std::vector<float> all(static_cast<std::size_t>(checked_mul(m.rows(), vocab, "logits")));
  m.evaluate(tokens, [&](Index first, Index rows, const float* chunk) {
    check(cudaMemcpyAsync(all.data() + first * vocab, chunk, static_cast<std::size_t>(rows * vocab) * sizeof(float),
                          cudaMemcpyDeviceToHost, m.run.stream));
    m.stream.synchronize();
  });
  return all;
}

Parameters& Trainer::parameters() {
  return impl_->parameters;
}
void Trainer::set_before_update(std::function<void(Parameters&)> hook) {
  impl_->before_update = std::move(hook);
}
const activation::Store& Trainer::store() const {
  return impl_->store;
}
const Config& Trainer::config() const {
  return impl_->config;
}
std::int64_t Trainer::lmhead_chunk() const {
  return impl_->lm_head.chunk();
}
std::int64_t Trainer::steps() const {
  return impl_->adamw.steps();
}

std::vector<float> read_back(const Tensor<float>& tensor) {
  std::vector<float> host(static_cast<std::size_t>(tensor.size()));
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(host.data(), tensor.data(), static_cast<std::size_t>(tensor.bytes()), cudaMemcpyDeviceToHost));
  return host;
}

}  // namespace spillway::model
