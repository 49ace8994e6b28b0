// trainer.cpp - see trainer.h. The store calls, in the order of its schedule, the operators below; each forwards to the
// part of the model that knows it. Nothing here depends on which plan is running.
#include "model/trainer.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/embedding.h"
#include "kernels/fill.h"
#include "model/decoder_block.h"
#include "model/device_batch.h"
#include "model/head.h"
#include "model/optimizer.h"
#include "model/saved_tensors.h"
#include "model/step_ranges.h"
#include "profiler/range.h"

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

// A trainer whatever its activations are; there is one Typed for each type that they come in.
struct Trainer::Impl {
  virtual ~Impl() = default;
  virtual StepResult step(const data::TokenBatch& tokens) = 0;
  virtual float evaluate(const data::TokenBatch& tokens) = 0;
  virtual std::vector<float> logits(const data::TokenBatch& tokens) = 0;
  virtual Parameters& parameters() = 0;
  virtual const activation::Store& store() const = 0;
  virtual cudaStream_t stream() const = 0;
  virtual const Config& config() const = 0;
  virtual std::int64_t lmhead_chunk() const = 0;
  virtual std::int64_t steps() const = 0;

  std::function<void(Parameters&)> before_update;
};

template <class A>
struct Trainer::Typed final : Impl, private activation::StepOperators {
  Typed(const Config& c, const TrainerOptions& options, memory::Allocator& allocator)
      : config_(checked(c, options)),
        spec_(layer_spec(config_, options.batch, options.seq, sizeof(A))),
        plan_(plan_of(options, spec_, config_.layers)),
        cublas_(stream_.get(), math_mode(options.precision)),
        run_{allocator, stream_.get(), cublas_.get()},
        parameters_(config_, allocator, stream_.get()),
        batch_(options.batch, options.seq, config_.vocab, run_),
        decoder_(config_, options.batch, options.seq, run_),
        head_(config_, options.batch * options.seq, options.lmhead_chunk, run_),
        adamw_(options.adamw, run_),
        loss_(run_.workspace(1, "loss")),
        store_(spec_, plan_, allocator, stream_.get(), options.store) {}

  Parameters& parameters() override { return parameters_; }
  const activation::Store& store() const override { return store_; }
  cudaStream_t stream() const override { return stream_.get(); }
  const Config& config() const override { return config_; }
  std::int64_t lmhead_chunk() const override { return head_.chunk(); }
  std::int64_t steps() const override { return adamw_.steps(); }

  StepResult step(const data::TokenBatch& tokens) override {
    StepResult result;
    result.loss = run_pass(tokens, true, [&] {
      start_.record(run_.stream);
      store_.run(*this);
      stop_.record(run_.stream);
    });
    result.step_ms = elapsed_ms(start_, stop_);
    result.cost = store_.cost();
    return result;
  }

  float evaluate(const data::TokenBatch& tokens) override { return evaluate(tokens, nullptr); }

  // A chunk at a time; what is no float yet is widened on the device.
  std::vector<float> logits(const data::TokenBatch& tokens) override {
    const Index vocab = config_.vocab;
    std::vector<float> all(static_cast<std::size_t>(checked_mul(rows(), vocab, "logits")));
    evaluate(tokens, [&](Index first, Index rows, const A* chunk) {
      Tensor<float> wide;
      const float* from = nullptr;
      if constexpr (std::is_same_v<A, float>) {
        from = chunk;
      } else {
        wide = run_.workspace(rows * vocab, "wide logits");
        kernels::widen(wide.data(), chunk, rows * vocab, run_.stream);
        from = wide.data();
      }
      check(cudaMemcpyAsync(all.data() + first * vocab, from, static_cast<std::size_t>(rows * vocab) * sizeof(float),
                            cudaMemcpyDeviceToHost, run_.stream));
      stream_.synchronize();
    });
    return all;
  }

 private:
  void begin(const activation::Action& action) override { ranges_.begin(action); }
  void end() override { ranges_.end(); }

  // ---- the operators of a step --------------------------------------------------------------------------------------

  void embed() override {
    kernels::embedding_forward(saved(0, Saved::x), batch_.ids(), parameters_.embedding().value.data(), rows(),
                               config_.d, run_.stream);
  }

  void forward(int layer, int op) override {
    decoder_.forward(static_cast<ForwardOp>(op), SavedTensors<A>(store_, layer), parameters_.layer(layer));
  }

  // The same operator on the same inputs gives the same bits: recomputation is running it again.
  void recompute(int layer, int op) override { forward(layer, op); }

  void head() override {
    const A* x = saved(static_cast<int>(config_.layers), Saved::x);
    if (training_)
      decoder_.begin_backward(head_.forward_backward(loss_.data(), x, batch_, parameters_));
    else
      head_.evaluate(loss_.data(), x, batch_, parameters_, look_at_logits_);
  }

  void backward(int layer, int op) override {
    decoder_.backward(static_cast<BackwardOp>(op), SavedTensors<A>(store_, layer), parameters_.layer(layer),
                      parameters_);
  }

  // dE (V, d) += rows of dx. A tied head has written dE already; else it begins at zero.
  void embed_backward() override {
    const Tensor<A> dx = decoder_.end_backward();
    Parameter& embedding = parameters_.embedding();
    const bool first_write = !embedding.gradient;
    float* gradient = parameters_.gradient(embedding);
    if (first_write)
      check(cudaMemsetAsync(gradient, 0, static_cast<std::size_t>(embedding.gradient.bytes()), run_.stream));
    kernels::embedding_backward(gradient, dx.data(), batch_.ids(), batch_.order(), batch_.segment_begin(),
                                batch_.segments(), rows(), config_.d, run_.stream);
  }

  void optimizer() override {
    if (before_update) {
      stream_.synchronize();
      before_update(parameters_);
    }
    adamw_.step(parameters_);
    parameters_.clear_gradients();
  }

  // ---- whole passes -------------------------------------------------------------------------------------------------

  // Uploads the tokens, lets the store drive the operators, and returns the loss with the device idle. Whatever goes
  // wrong, what the pass had allocated goes back (the store has its own tensors freed and the device idle by then).
  template <class Pass>
  float run_pass(const data::TokenBatch& tokens, bool with_gradients, Pass&& pass) {
    training_ = with_gradients;
    try {
      {
        const profiler::Range range(profiler::Phase::data, "data");
        batch_.upload(tokens);
      }
      {
        const profiler::Range range(with_gradients ? profiler::Phase::none : profiler::Phase::evaluate,
                                    with_gradients ? profiler::kStepRange : "evaluation");
        const StepRanges::Scope within(ranges_);
        pass();
      }
      const profiler::Range range(profiler::Phase::data, "loss");
      float result = 0;
      check(cudaMemcpyAsync(&result, loss_.data(), sizeof result, cudaMemcpyDeviceToHost, run_.stream));
      stream_.synchronize();
      return result;
    } catch (...) {
      decoder_.abandon_backward();
      parameters_.clear_gradients();
      throw;
    }
  }

  float evaluate(const data::TokenBatch& tokens, typename Head<A>::LookAtLogits look) {
    look_at_logits_ = std::move(look);
    const float result = run_pass(tokens, false, [&] { store_.evaluate(*this); });
    look_at_logits_ = nullptr;
    return result;
  }

  A* saved(int layer, Saved tensor) const { return static_cast<A*>(store_.tensor(layer, tensor)); }
  Index rows() const { return batch_.rows(); }

  Config config_;
  activation::LayerSpec spec_;
  activation::Plan plan_;
  Stream stream_{"compute"};
  Cublas cublas_;
  Execution run_;
  Parameters parameters_;
  DeviceBatch batch_;
  DecoderBlock<A> decoder_;
  Head<A> head_;
  Optimizer adamw_;
  Tensor<float> loss_;
  Event start_{Event::Timing::on}, stop_{Event::Timing::on};
  bool training_ = false;
  StepRanges ranges_{spec_};
  typename Head<A>::LookAtLogits look_at_logits_;
  activation::Store store_;  // last, so that it goes first: it waits for the device before anything else is destroyed
};

Trainer::Trainer(const Config& config, const TrainerOptions& options, memory::Allocator& allocator) {
  if (options.precision == Precision::bfloat16)
    impl_ = std::make_unique<Typed<kernels::bfloat16>>(config, options, allocator);
  else
    impl_ = std::make_unique<Typed<float>>(config, options, allocator);
}
Trainer::~Trainer() = default;

StepResult Trainer::step(const data::TokenBatch& tokens) {
  return impl_->step(tokens);
}
float Trainer::evaluate(const data::TokenBatch& tokens) {
  return impl_->evaluate(tokens);
}
std::vector<float> Trainer::logits(const data::TokenBatch& tokens) {
  return impl_->logits(tokens);
}
Parameters& Trainer::parameters() {
  return impl_->parameters();
}
void Trainer::set_before_update(std::function<void(Parameters&)> hook) {
  impl_->before_update = std::move(hook);
}
const activation::Store& Trainer::store() const {
  return impl_->store();
}
std::vector<std::pair<cudaStream_t, std::string>> Trainer::streams() const {
  return {{impl_->stream(), "compute"}, {store().copy_out(), "copy-out"}, {store().copy_in(), "copy-in"}};
}
const Config& Trainer::config() const {
  return impl_->config();
}
std::int64_t Trainer::lmhead_chunk() const {
  return impl_->lmhead_chunk();
}
std::int64_t Trainer::steps() const {
  return impl_->steps();
}

std::vector<float> read_back(const Tensor<float>& tensor) {
  std::vector<float> host(static_cast<std::size_t>(tensor.size()));
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(host.data(), tensor.data(), static_cast<std::size_t>(tensor.bytes()), cudaMemcpyDeviceToHost));
  return host;
}

}  // namespace spillway::model
