// main.cpp - the program `spillway`: turns a command line into one call of decision/commands.h, and every error into
// one line. Exit status: 0 done, 1 could not be done or did not hold, 2 the command line itself is wrong, 130
// interrupted.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <optional>

#include "decision/commands.h"
#include "decision/provenance.h"
#include "decision/strategy_benchmark.h"
#include "runtime/error.h"
#ifdef SPILLWAY_HOST
#include "runtime/hostcuda/control.h"
#endif

namespace {
using namespace spillway;

void add_workload(CLI::App* app, decision::WorkloadOptions& w) {
  app->add_option("--model", w.model, "preset (see info) or a folder with config.json and safetensors");
  app->add_option("--seq", w.seq, "tokens a row")->capture_default_str();
  app->add_option("--batch", w.batch, "rows a step")->capture_default_str();
  app->add_option("--dtype", w.dtype, "arithmetic of the step: float32")->capture_default_str();
  app->add_option("--seed", w.seed, "of weights and random tokens")->capture_default_str();
  app->add_option("--data", w.data, "text file, or token ids (.u16, .u32); default: random tokens");
  app->add_option("--lmhead-chunk", w.lmhead_chunk, "tokens of logits at a time; 0: all; -1: what fits in 160 MiB")
      ->capture_default_str();
  app->add_option("--lr", w.adamw.lr, "AdamW's learning rate")->capture_default_str();
  app->add_option("--weight-decay", w.adamw.weight_decay, "AdamW's weight decay")->capture_default_str();
}

#ifdef SPILLWAY_HOST
// What only a device that is a program can be told.
struct HostOptions {
  std::optional<std::uint64_t> device_memory;
  std::optional<int> pool_threads;
  std::vector<std::string> faults;

  void add(CLI::App* app) {
    app->add_option("--device-memory", device_memory, "size of the device's memory, e.g. 8GiB")
        ->transform(CLI::AsSizeValue(false));
    app->add_option("--pool-threads", pool_threads, "threads that run kernels; default: every processor");
    app->add_option(
        "--fault", faults,
        "arm a fault: cudaMalloc:3 (third call fails), delay:1:5ms (each task of stream 1), link:2.5 (GB/s)");
  }
  void apply() const {
    constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 62;
    constexpr int kMostThreads = 1024;
    if (device_memory && (*device_memory < 1 || *device_memory > kMostMemory))
      throw Error(fmt::format("device-memory {}: 1 byte to {}", *device_memory, kMostMemory));
    if (pool_threads && (*pool_threads < 1 || *pool_threads > kMostThreads))
      throw Error(fmt::format("pool-threads {}: 1 to {}", *pool_threads, kMostThreads));
    if (device_memory) hostcuda::set_device_memory(static_cast<std::int64_t>(*device_memory));
    if (pool_threads) hostcuda::set_pool_threads(*pool_threads);
    for (const std::string& fault : faults) hostcuda::arm_fault(fault);
  }
};
#else
struct HostOptions {
  void add(CLI::App*) {}
  void apply() const {}
};
#endif

int run(int argc, char** argv) {
  CLI::App app("Spillway: where the memory of a training step goes, and what each way of saving it costs.", "spillway");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of every subcommand");
  HostOptions host;
  std::function<int()> command;

  decision::BenchCommand bench;
  auto* b = app.add_subcommand("bench", "experiment 76: one workload under several memory strategies");
  add_workload(b, bench.benchmark.workload);
  b->add_option("--strategies", bench.benchmark.strategies, "comma list; default: baseline,checkpoint,offload,hybrid")
      ->delimiter(',');
  b->add_option("--warmup", bench.benchmark.steps.warmup, "steps before measuring")->capture_default_str();
  b->add_option("--iters", bench.benchmark.steps.iters, "measured steps a repeat")->capture_default_str();
  b->add_option("--repeats", bench.benchmark.steps.repeats, "times each strategy is measured, in balanced order")
      ->capture_default_str();
  b->add_option("--memory-cap-mb", bench.benchmark.memory_cap_mb, "budget, MiB; default: the device's memory");
  b->add_option("--min-samples-per-s", bench.benchmark.min_samples_per_s, "throughput floor")->capture_default_str();
  b->add_option("--max-val-loss", bench.benchmark.max_val_loss,
                "quality floor; default: baseline's evaluation loss x 1.02");
  b->add_option("--saving-threshold-mb", bench.benchmark.thresholds.saving_mb, "a saving worth having")
      ->capture_default_str();
  b->add_option("--throughput-threshold", bench.benchmark.thresholds.throughput_ratio, "share of throughput to keep")
      ->capture_default_str();
  b->add_option("--results", bench.results, "folder of runs")->capture_default_str();
  b->add_option("--run", bench.run, "this run's folder in it; default: time, device, model and seq");
  host.add(b);
  b->callback([&] {
    bench.command_line = decision::command_line(argc, argv);
    command = [&] { return decision::bench(bench); };
  });

  decision::TrainCommand train;
  train.workload.seq = 256;
  train.workload.adamw.lr = 1e-3;
  auto* t = app.add_subcommand("train", "train on a text and print the loss");
  add_workload(t, train.workload);
  t->add_option("--strategy", train.strategy, "memory strategy")->capture_default_str();
  t->add_option("--steps", train.steps, "training steps")->capture_default_str();
  t->add_option("--every", train.every, "steps between printed lines")->capture_default_str();
  host.add(t);
  t->callback([&] { command = [&] { return decision::train(train); }; });

  decision::VerifyCommand verify;
  auto* v = app.add_subcommand("verify", "compare losses, gradients and stepped parameters with golden numbers");
  v->add_option("model", verify.model, "folder with config.json and safetensors")->required();
  v->add_option("golden", verify.golden, "safetensors file with the golden numbers")->required();
  v->add_option("--strategy", verify.strategy, "memory strategy")->capture_default_str();
  host.add(v);
  v->callback([&] { command = [&] { return decision::verify(verify); }; });

  decision::ExplainCommand explain;
  auto* e = app.add_subcommand("explain", "print a strategy's plan, its schedule, and the checker's verdict");
  e->add_option("--strategy", explain.strategy, "memory strategy")->capture_default_str();
  e->add_option("--model", explain.model, "preset or folder");
  e->add_option("--seq", explain.seq, "tokens a row")->capture_default_str();
  e->add_option("--batch", explain.batch, "rows a step")->capture_default_str();
  e->add_flag("--full", explain.full, "every action, not only the first and last layers'");
  e->callback([&] { command = [&] { return decision::explain(explain); }; });

  auto* i = app.add_subcommand("info", "the device, the presets, the strategies");
  i->callback([&] { command = [] { return decision::info(); }; });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    fmt::print(stderr, "spillway: {} (spillway --help)\n", error.what());
    return 2;
  }
  host.apply();
  return command();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const decision::Interrupted&) {
    fmt::print(stderr, "spillway: interrupted; nothing was recorded\n");
    return 130;
  } catch (const std::exception& error) {
    fmt::print(stderr, "spillway: {}\n", error.what());
    return 1;
  }
}
