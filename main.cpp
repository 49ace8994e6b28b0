// main.cpp - the program `spillway`: turns a command line into one call of decision/commands.h, and every error into
// one line. Exit status: 0 done, 1 could not be done or did not hold, 2 the command line itself is wrong, 130
// interrupted.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <system_error>

#include "decision/commands.h"
#include "decision/progress.h"
#include "decision/provenance.h"
#include "runtime/error.h"
#ifdef SPILLWAY_HOST
#include "runtime/hostcuda/control.h"
#endif

namespace {
using namespace spillway;

void add_workload(CLI::App* app, decision::WorkloadOptions& w) {
  app->add_option("--model", w.model, "preset (see info) or a folder with config.json and safetensors");
  app->add_option("--seq", w.seq, "tokens a row; the default: no more than the model's positions")
      ->capture_default_str();
  app->add_option("--batch", w.batch, "rows a step")->capture_default_str();
  app->add_option("--dtype", w.dtype, "arithmetic of the step: float32, bfloat16 (bf16) or, on a GPU, tf32")
      ->capture_default_str();
  app->add_option("--seed", w.seed, "of weights and random tokens")->capture_default_str();
  app->add_option("--data", w.data, "text file, or token ids (.u16, .u32); default: random tokens");
  app->add_option("--lmhead-chunk", w.lmhead_chunk, "tokens of logits at a time; 0: all; -1: what fits in 160 MiB")
      ->capture_default_str();
  app->add_option("--lr", w.adamw.lr, "AdamW's learning rate")->capture_default_str();
  app->add_option("--weight-decay", w.adamw.weight_decay, "AdamW's weight decay")->capture_default_str();
}

void add_named_workload(CLI::App* app, decision::WorkloadOptions& w) {
  app->add_option("--workload", w.seq, "smoke (seq 512) or pressure (seq 768) instead of --seq")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, std::int64_t>{{"smoke", decision::kSmokeSeq}, {"pressure", decision::kPressureSeq}}))
      ->excludes(app->get_option("--seq"));
}

void add_strategies(CLI::App* app, std::vector<std::string>& strategies) {
  app->add_option("--strategies", strategies, "comma list; default: baseline,checkpoint,offload,hybrid")
      ->delimiter(',');
}

void add_budget(CLI::App* app, std::optional<double>& cap, std::optional<double>& minimum, std::optional<double>& floor,
                const std::string& otherwise) {
  app->add_option("--memory-cap-mb", cap, "budget: peak memory at most, MiB; default: " + otherwise);
  app->add_option("--min-samples-per-s", minimum, "budget: throughput at least; default: " + otherwise);
  app->add_option("--max-val-loss", floor, "budget: evaluation loss at most; default: " + otherwise);
}

void add_steps(CLI::App* app, decision::Steps& steps) {
  app->add_option("--warmup", steps.warmup, "steps before measuring")->capture_default_str();
  app->add_option("--iters", steps.iters, "measured steps a repeat")->capture_default_str();
  app->add_option("--repeats", steps.repeats, "times each candidate is measured, in balanced order")
      ->capture_default_str();
}

void add_place(CLI::App* app, decision::RunPlace& place) {
  app->add_option("--results", place.results, "folder of runs")->capture_default_str();
  app->add_option("--run", place.run, "this run's folder in it; default: time, device, model and seq");
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
  // A fault that did not come about is told, or its silence would pass for robustness.
  static void report_faults() {
    for (const std::string& fault : hostcuda::pending_faults())
      std::fputs(fmt::format("spillway: note: {}\n", fault).c_str(), stderr);
  }
};
void add_books_only(CLI::App* app, decision::BoundaryOptions& boundary) {
  auto* books = app->add_flag_callback(
      "--books-only", [&boundary] { boundary.set_books_only = hostcuda::set_books_only; },
      "ask for every byte of a step without computing it: the same boundaries, in seconds");
  app->add_flag("--confirm", boundary.confirm, "then train at each boundary and a step above it")->needs(books);
}
#else
struct HostOptions {
  void add(CLI::App*) {}
  void apply() const {}
  static void report_faults() {}
};
void add_books_only(CLI::App*, decision::BoundaryOptions&) {}
#endif

// A number is what was typed: by itself CLI11 takes an empty word for 0, wraps what is negative, and clips what is too
// large for its type.
void check_numbers(CLI::App& app) {
  const auto reads = [](const std::string& text, auto number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
  };
  const auto must = [](bool good, const std::string& text, const char* what) {
    return good ? std::string() : fmt::format("'{}' is not {}", text, what);
  };
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name();
      if (type == "INT")
        option->check(
            [=](const std::string& t) { return must(reads(t, std::int64_t{}), t, "a whole number in range"); }, "");
      if (type == "UINT")
        option->check(
            [=](const std::string& t) {
              return must(reads(t, std::uint64_t{}), t, "a whole number from 0 up, in range");
            },
            "");
      if (type == "FLOAT")
        option->check([=](const std::string& t) { return must(reads(t, double{}), t, "a number"); }, "");
    }
}

int run(int argc, char** argv) {
  CLI::App app("Spillway: where the memory of a training step goes, and what each way of saving it costs.", "spillway");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of every subcommand");
  HostOptions host;
  std::function<int()> command;

  decision::BaselineCommand baseline;
  baseline.baseline.workload.seq = decision::kBaselineSeq;
  auto* a = app.add_subcommand("baseline", "experiment 73: a step against the same step with one thing changed");
  add_workload(a, baseline.baseline.workload);
  a->add_option("--strategy", baseline.baseline.strategy, "memory strategy")->capture_default_str();
  a->add_option("--tuned", baseline.baseline.tuned,
                "what the tuned arm changes: dtype=D, lmhead-chunk=N, strategy=S or batch=N; default: dtype=bfloat16");
  add_steps(a, baseline.baseline.steps);
  add_place(a, baseline.place);
  host.add(a);
  a->callback([&] { command = [&] { return decision::baseline(baseline); }; });

  decision::BenchCommand bench;
  auto* b = app.add_subcommand("bench", "experiment 76: one workload under several memory strategies");
  add_workload(b, bench.benchmark.workload);
  add_named_workload(b, bench.benchmark.workload);
  add_strategies(b, bench.benchmark.strategies);
  add_steps(b, bench.benchmark.steps);
  add_budget(b, bench.benchmark.memory_cap_mb, bench.benchmark.min_samples_per_s, bench.benchmark.max_val_loss,
             "the device's memory, none, the baseline's evaluation loss x 1.02");
  b->add_option("--saving-threshold-mb", bench.benchmark.thresholds.saving_mb, "a saving worth having")
      ->capture_default_str();
  b->add_option("--throughput-threshold", bench.benchmark.thresholds.throughput_ratio, "share of throughput to keep")
      ->capture_default_str();
  b->add_option("--source-baseline", bench.benchmark.source_baseline,
                "the 73 record to refer to; default: the one in the run's folder");
  add_place(b, bench.place);
  host.add(b);
  b->callback([&] { command = [&] { return decision::bench(bench); }; });

  decision::BoundaryCommand boundary;
  auto* o = app.add_subcommand("oom-boundary", "the longest sequence that each memory strategy can train");
  add_workload(o, boundary.boundary.workload);
  o->remove_option(o->get_option("--seq"));
  add_strategies(o, boundary.boundary.strategies);
  o->add_option("--memory-cap-mb", boundary.boundary.memory_cap_mb,
                "memory that may be reserved, MiB; default: the device's");
  add_place(o, boundary.place);
  host.add(o);
  add_books_only(o, boundary.boundary);
  o->callback([&] { command = [&] { return decision::oom_boundary(boundary); }; });

  decision::DecideCommand decide;
  auto* d = app.add_subcommand("decide", "experiment 75: how a 76 record's decision falls under a grid of budgets");
  d->add_option("--input", decide.input, "a 76 record, of this program or another")->required();
  add_budget(d, decide.options.memory_cap_mb, decide.options.min_samples_per_s, decide.options.max_val_loss,
             "the record's");
  d->add_option("--caps", decide.options.caps,
                "comma list of MiB, or of multiples of the baseline's peak like 1.02x; default: 9500,10000,11200 where "
                "those lie around it, else 0.97x,1.02x,1.15x")
      ->delimiter(',');
  d->add_option("--throughput-fractions", decide.options.throughput_fractions,
                "comma list: minima, as shares of the baseline's samples/s")
      ->delimiter(',')
      ->capture_default_str();
  d->add_option("--loss-margins", decide.options.loss_margins,
                "comma list: quality floors, as multiples of the baseline's evaluation loss")
      ->delimiter(',')
      ->capture_default_str();
  d->add_option("--saving-threshold-mb", decide.options.saving_threshold_mb,
                "a saving worth having, MiB; default: the record's, else 512");
  d->add_option("--throughput-threshold", decide.options.throughput_threshold,
                "share of throughput to keep; default: the record's, else 0.7");
  d->add_option("--output", decide.output, "default: 75_memory_budget_decision.json beside the input");
  d->callback([&] { command = [&] { return decision::decide(decide); }; });

  decision::NormalizeCommand normalize;
  auto* n = app.add_subcommand("normalize", "make the v1 sidecars of records of 73, 76 and 75");
  n->add_option("files", normalize.files, "records")->required();
  n->add_option("--output-dir", normalize.output_dir, "default: beside each record");
  n->callback([&] { command = [&] { return decision::normalize_files(normalize); }; });

  decision::ChainCommand chain;
  auto* c = app.add_subcommand("chain", "experiments 73, 76, 75 and 74 into one run folder, then check");
  add_workload(c, chain.workload);
  c->remove_option(c->get_option("--seq"));
  c->add_option("--seq", chain.seq, "tokens a row, in every experiment; default: 256 in 73 and 768 in 76");
  c->add_option("--tuned", chain.tuned, "see baseline");
  add_strategies(c, chain.benchmark.strategies);
  c->add_option("--warmup", chain.warmup, "steps before measuring; default: each experiment's own");
  c->add_option("--iters", chain.iters, "measured steps a repeat; default: each experiment's own");
  c->add_option("--repeats", chain.repeats, "times each candidate is measured; default: each experiment's own");
  add_budget(c, chain.benchmark.memory_cap_mb, chain.benchmark.min_samples_per_s, chain.benchmark.max_val_loss,
             "as bench's");
  add_place(c, chain.place);
  host.add(c);
  c->callback([&] { command = [&] { return decision::chain(chain); }; });

  decision::ProfileCommand profile;
  auto* p = app.add_subcommand("profile", "experiment 74: why the strategy that 75 chose costs what it costs");
  p->add_option("folder", profile.folder, "the folder of a run with records of 73, 76 and 75")->required();
  p->add_option("--model", profile.model, "as it was given to bench, where it is a folder");
  p->add_option("--data", profile.data, "as it was given to bench");
  p->add_option("--seq", profile.seq, "tokens a row: only what the run was measured with");
  add_steps(p, profile.closeout.steps);
  p->add_option("--time-threshold-ms", profile.closeout.thresholds.time_delta_ms, "a gain in step time worth having")
      ->capture_default_str();
  p->add_option("--throughput-threshold", profile.closeout.thresholds.samples_per_s_delta,
                "a gain in samples/s worth having")
      ->capture_default_str();
  p->add_option("--previous", profile.previous,
                "a 74 record whose prediction is compared; default: the latest of this workload beside the run");
  host.add(p);
  p->callback([&] { command = [&] { return decision::profile(profile); }; });

  decision::CheckCommand check;
  auto* k = app.add_subcommand("check", "the protocol's four questions, answered from a run's records");
  k->add_option("folder", check.folder, "the run's folder")->required();
  k->callback([&] { command = [&] { return decision::check_records(check); }; });

  decision::ReportCommand report;
  auto* r = app.add_subcommand("report", "a run's folder as one page: report.html in it");
  r->add_option("folder", report.folder, "the run's folder")->capture_default_str();
  r->callback([&] { command = [&] { return decision::report(report); }; });

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
  e->add_option("--dtype", explain.dtype, "arithmetic of the step, see bench")->capture_default_str();
  e->add_flag("--full", explain.full, "every action, not only the first and last layers'");
  e->callback([&] { command = [&] { return decision::explain(explain); }; });

  auto* i = app.add_subcommand("info", "the device, the presets, the strategies");
  i->callback([&] { command = [] { return decision::info(); }; });

  check_numbers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::fputs(("spillway: " + decision::one_line(error.what()) + " (spillway --help)\n").c_str(), stderr);
    return 2;
  }
  const auto seq_is_default = [](const CLI::App* sub) {
    const CLI::Option* named = sub->get_option_no_throw("--workload");
    return sub->count("--seq") == 0 && (named == nullptr || named->count() == 0);
  };
  baseline.baseline.workload.seq_is_default = seq_is_default(a);
  bench.benchmark.workload.seq_is_default = seq_is_default(b);
  train.workload.seq_is_default = seq_is_default(t);
  explain.seq_is_default = seq_is_default(e);
  host.apply();
  decide.command_line = profile.command_line = decision::command_line(argc, argv);
  for (decision::RunPlace* place : {&baseline.place, &bench.place, &boundary.place, &chain.place})
    place->command_line = decide.command_line;
  return command();
}

// An error's one line, whatever a file or an argument put into it, and whether or not anybody can read it.
void complain(const std::string& message) {
  const std::string line = "spillway: " + decision::one_line(message) + "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace

int main(int argc, char** argv) {
  // Whoever stops reading (| head) does not end a measurement: the write fails instead, and the record is kept.
  std::signal(SIGPIPE, SIG_IGN);
  int status = 1;
  try {
    status = run(argc, argv);
  } catch (const decision::Interrupted& interrupted) {
    complain(interrupted.what());
    status = 130;
  } catch (const std::system_error& error) {
    if (error.code().value() != EPIPE) complain(error.what());
  } catch (const std::bad_alloc&) {
    complain("the host's memory ran out");
  } catch (const std::exception& error) {
    complain(error.what());
  }
  HostOptions::report_faults();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    if (errno != EPIPE) complain(std::string("standard output cannot be written: ") + std::strerror(errno));
    if (status == 0) status = 1;
  }
  return status;
}
