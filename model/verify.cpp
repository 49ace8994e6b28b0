// verify.cpp - see verify.h.
#include "model/verify.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "model/trainer.h"

namespace spillway::model {
namespace {

// The elements of a stored tensor as T. Error when it is of another type.
template <class T, Dtype dtype>
std::vector<T> values(const Safetensors& file, const std::string& name, const char* type) {
  const StoredTensor& t = file.at(name);
  if (t.dtype != dtype) throw Error("golden tensor " + name + ": must be " + type);
  std::vector<T> out(static_cast<std::size_t>(t.elements()));
  if (!out.empty()) std::memcpy(out.data(), t.data.data(), t.data.size());
  return out;
}

data::TokenBatch tokens(const Safetensors& golden, const std::string& name) {
  const std::vector<std::int64_t>& shape = golden.at(name).shape;
  if (shape.size() != 2) throw Error("golden tensor " + name + ": must have shape (batch, seq)");
  data::TokenBatch batch{shape[0], shape[1], {}};
  for (const std::int64_t id : values<std::int64_t, Dtype::i64>(golden, name, "I64")) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
      throw Error("golden tensor " + name + ": id " + std::to_string(id) + " is not a token");
    batch.ids.push_back(static_cast<std::int32_t>(id));
  }
  return batch;
}

// ||x - golden|| / ||golden||, in double. NaN anywhere gives NaN, which no tolerance admits.
double relative_error(std::span<const float> x, std::span<const float> golden) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < golden.size(); i++) {
    const double g = golden[i], e = x[i] - g;
    difference += e * e;
    norm += g * g;
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

// Counts the comparisons and prints each as a line.
class Comparison {
 public:
  Comparison(const Safetensors& golden, const VerifyOptions& options, std::ostream& out)
      : golden_(golden), options_(options), out_(out) {}

  void tensor(const std::string& golden_name, std::span<const float> x) {
    const std::vector<float> expected = values<float, Dtype::f32>(golden_, golden_name, "F32");
    if (expected.size() != x.size())
      throw Error(
          fmt::format("golden tensor {}: {} elements, the model has {}", golden_name, expected.size(), x.size()));
    line(golden_name, "", relative_error(x, expected), options_.tensor_tolerance);
  }

  void loss(const std::string& name, double x, double expected) {
    line(name, fmt::format("{:.7f} (golden {:.7f})", x, expected), std::abs(x - expected) / std::abs(expected),
         options_.loss_tolerance);
  }

  bool verdict() const {
    out_ << (failed_ == 0 ? fmt::format("verified: all {} comparisons within tolerance\n", compared_)
                          : fmt::format("NOT verified: {} of {} comparisons outside tolerance\n", failed_, compared_));
    return failed_ == 0;
  }

 private:
  void line(const std::string& name, const std::string& what, double error, double tolerance) {
    const bool ok = error <= tolerance;
    compared_++;
    failed_ += ok ? 0 : 1;
    out_ << fmt::format("{:<62} {:<38} relative error {:.2e}  tolerance {:.0e}  {}\n", name, what, error, tolerance,
                        ok ? "ok" : "FAIL");
  }

  const Safetensors& golden_;
  const VerifyOptions& options_;
  std::ostream& out_;
  int compared_ = 0, failed_ = 0;
};

// What the golden file was made with (test/fixtures/tiny_qwen2).
constexpr kernels::AdamW kGoldenAdamW{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};
constexpr int kGoldenSteps = 3;

}  // namespace

bool verify(const std::filesystem::path& model_folder, const std::filesystem::path& golden_file,
            const VerifyOptions& options, memory::Allocator& allocator, std::ostream& out) {
  const Config config = read_config(model_folder);
  const Safetensors golden = Safetensors::open_file(golden_file);
  const data::TokenBatch train = tokens(golden, "tokens"), eval = tokens(golden, "eval_tokens");
  const auto losses = values<double, Dtype::f64>(golden, "losses", "F64");
  const auto eval_loss = values<double, Dtype::f64>(golden, "eval_loss", "F64");
  if (losses.size() != kGoldenSteps + 1 || eval_loss.size() != 1)
    throw Error(
        fmt::format("golden file {}: must hold {} losses and one eval_loss", golden_file.string(), kGoldenSteps + 1));

  TrainerOptions trainer_options;
  trainer_options.batch = train.batch;
  trainer_options.seq = train.seq;
  trainer_options.strategy = options.strategy;
  trainer_options.lmhead_chunk = options.lmhead_chunk;
  trainer_options.adamw = kGoldenAdamW;
  Trainer trainer(config, trainer_options, allocator);
  trainer.parameters().load(Safetensors::open_folder(model_folder));

  Comparison compare(golden, options, out);
  compare.tensor("logits", trainer.logits(train));

  trainer.set_before_update([&](Parameters& parameters) {
    if (trainer.steps() > 0) return;  // the golden gradients are the first step's
    for (const Parameter& p : parameters.all()) compare.tensor("grad." + p.name, read_back(p.gradient));
  });
  for (int step = 0; step < kGoldenSteps; step++)
    compare.loss(fmt::format("loss before step {}", step + 1), trainer.step(train).loss,
                 losses[static_cast<std::size_t>(step)]);

  for (const Parameter& p : trainer.parameters().all()) compare.tensor("after3." + p.name, read_back(p.value));
  compare.loss(fmt::format("loss after step {}", kGoldenSteps), trainer.evaluate(train), losses.back());
  compare.loss("eval_loss", trainer.evaluate(eval), eval_loss[0]);
  return compare.verdict();
}

}  // namespace spillway::model
