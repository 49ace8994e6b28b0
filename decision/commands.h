// commands.h - what the program can do: one function a subcommand, each with its options as a plain struct. main.cpp
// fills the structs from the command line; everything else happens here. Each returns the exit status and throws Error
// for bad input.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "decision/budget_decision.h"
#include "decision/oom_boundary.h"
#include "decision/profiling_closeout.h"
#include "decision/strategy_benchmark.h"
#include "decision/training_baseline.h"
#include "decision/workload.h"

namespace spillway::decision {

// Where a record goes, and the command that made it.
struct RunPlace {
  std::string results = "results", run;  // run empty: default_run_name
  std::string command_line;
};

struct BaselineCommand {
  BaselineOptions baseline;
  RunPlace place;
};
int baseline(BaselineCommand command);

struct BenchCommand {
  BenchmarkOptions benchmark;
  RunPlace place;
};
int bench(BenchCommand command);
// What bench() would refuse of its options before it looks at device, model or data.
void check_benchmark(const BenchmarkOptions& options);

struct BoundaryCommand {
  BoundaryOptions boundary;
  RunPlace place;
};
int oom_boundary(BoundaryCommand command);

struct DecideCommand {
  std::string input;  // a 76 record
  BudgetOptions options;
  std::string output;  // empty: 75_memory_budget_decision.json beside the input
  std::string command_line;
};
int decide(const DecideCommand& command);

struct NormalizeCommand {
  std::vector<std::string> files;
  std::string output_dir;  // empty: beside each file
};
int normalize_files(const NormalizeCommand& command);

struct CheckCommand {
  std::string folder;
};
int check_records(const CheckCommand& command);

struct ProfileCommand {
  std::string folder;       // of a run with records of 73, 76 and 75
  std::string model, data;  // as they were given to 76, where the record's name is no preset, its tokens not random
  std::optional<std::int64_t> seq;  // must be the record's
  CloseoutOptions closeout;
  std::string previous;  // another run's 74 record; empty: the latest of the same workload beside this run
  std::string command_line;
};
int profile(const ProfileCommand& command);

struct ReportCommand {
  std::string folder = "results/latest";
};
// report.html in the folder, from its files alone.
int report(const ReportCommand& command);

// 73, 76, 75 and 74 into one run folder, then check.
struct ChainCommand {
  WorkloadOptions workload;         // of both experiments, but for its seq
  std::optional<std::int64_t> seq;  // default: each experiment's own
  std::optional<int> warmup, iters, repeats;
  std::vector<std::string> tuned;  // see BaselineOptions
  BenchmarkOptions benchmark;      // strategies and budget
  RunPlace place;
};
int chain(ChainCommand command);

struct TrainCommand {
  WorkloadOptions workload;
  std::string strategy = "baseline";
  int steps = 100;
  int every = 10;  // steps between printed lines
};
int train(const TrainCommand& command);

struct ExplainCommand {
  std::string model, strategy = "hybrid", dtype = "float32";
  std::int64_t seq = 768, batch = 1;
  bool seq_is_default = false;  // see WorkloadOptions
  bool full = false;            // the whole schedule, not its first and last layers
};
int explain(const ExplainCommand& command);

int info();

struct VerifyCommand {
  std::string model, golden;
  std::string strategy = "baseline";
};
int verify(const VerifyCommand& command);

}  // namespace spillway::decision
