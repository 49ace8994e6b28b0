// train_command.cpp - `spillway train`: the same training step, many times, on a text; the loss falls.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "decision/commands.h"
#include "decision/progress.h"
#include "kernels/norm.h"
#include "runtime/memory/caching_allocator.h"

namespace spillway::decision {
namespace {

// The Euclidean norm of all gradients together.
double gradient_norm(model::Parameters& parameters, memory::Allocator& allocator, cudaStream_t stream) {
  kernels::Index scratch = 0;
  for (const model::Parameter& p : parameters.all())
    scratch = std::max(scratch, kernels::squared_norm_scratch(p.elements()));
  const Tensor<double> memory(allocator, scratch + 1, memory::Category::workspace, stream, "gradient norm");
  double* sum = memory.data();
  check(cudaMemsetAsync(sum, 0, sizeof(double), stream));
  for (const model::Parameter& p : parameters.all())
    if (p.gradient) kernels::squared_norm(sum, sum + 1, p.gradient.data(), p.elements(), stream);
  double squared = 0;
  check(cudaMemcpyAsync(&squared, sum, sizeof squared, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  return std::sqrt(squared);
}

}  // namespace

int train(const TrainCommand& command) {
  if (command.steps < 1) throw Error(fmt::format("steps {}: at least 1", command.steps));
  if (command.every < 1) throw Error(fmt::format("every {}: at least 1 step between lines", command.every));
  const DeviceInfo device = require_device();
  Workload workload(command.workload, device);
  const WorkloadOptions& w = workload.options();
  memory::CudaDeviceMemory memory;
  memory::CachingAllocator allocator(memory);
  auto trainer = workload.trainer(command.strategy, allocator);
  const Stream norm_stream("gradient norm");
  const data::TokenBatch held_out = workload.tokens().evaluation(w.batch, w.seq);

  fmt::print("training {} on {}; {} steps of {} x {} tokens, strategy {}\n", workload.config().name,
             workload.tokens().description(), command.steps, w.batch, w.seq, command.strategy);
  fmt::print("evaluation loss before: {:.4f}\n", trainer->evaluate(held_out));
  std::fflush(stdout);
  catch_interrupts();
  double norm = 0;
  bool wanted = false;
  trainer->set_before_update([&](model::Parameters& p) {
    if (wanted) norm = gradient_norm(p, allocator, norm_stream.get());
  });
  Progress progress;
  auto last = std::chrono::steady_clock::now();
  int since = 0, done = 0;
  for (int step = 1; step <= command.steps && !interrupted(); ++step) {
    wanted = step == 1 || step == command.steps || step % command.every == 0;
    const model::StepResult r = trainer->step(workload.tokens().next(w.batch, w.seq));
    ++since;
    done = step;
    if (!std::isfinite(r.loss))
      throw Error(fmt::format("the loss is {} at step {}: lower --lr, or look for NaN in the weights", r.loss, step));
    progress.show(fmt::format("step {}/{}  loss {:.4f}", step, command.steps, r.loss));
    if (!wanted) continue;
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last).count();
    progress.show("");
    fmt::print("step {:5d}  loss {:8.4f}  gradient norm {:9.4f}  {:8.0f} tokens/s\n", step, r.loss, norm,
               static_cast<double>(since * w.batch * w.seq) / seconds);
    std::fflush(stdout);
    last = now;
    since = 0;
  }
  progress.show("");
  fmt::print("evaluation loss after {} steps: {:.4f}\n", done, trainer->evaluate(held_out));
  return done == command.steps ? 0 : 130;
}

}  // namespace spillway::decision
