// document.h - everything that a run's folder holds for its report, read once. What is missing is named; what is broken
// is an Error.
#pragma once
#include <filesystem>
#include <list>
#include <string>
#include <vector>

#include "decision/check_run.h"
#include "decision/report/node.h"

namespace spillway::decision {

struct Document {
  Document() = default;
  Document(Document&&) = default;  // a copy's nodes would point into the other
  std::filesystem::path folder;
  std::string run;          // the folder's own name, also of results/latest
  std::list<Record> files;  // all that were read; nodes point into it

  // Of each the root, nowhere when it is missing.
  Node training, benchmark, budget, profiling;               // 73, 76, 75, 74
  Node training_sidecar, benchmark_sidecar, budget_sidecar;  // v1
  Node trace_baseline, trace_tuned;
  struct Timeline {
    std::string strategy;
    Node root;
  };
  std::vector<Timeline> timelines;  // in the order of the 76 record's candidates where it has them

  struct Missing {
    std::string file, what;  // what would stand in it
  };
  std::vector<Missing> missing;
  RunCheck check;

  // The first of 74, 75, 76 and 73 that has a config: what ran where.
  Node config() const;
  std::string evidence_level() const;  // "host", "single_gpu"; "" when no record says
  bool host() const;                   // no GPU did the work
};

// Error: no such folder, none of the four records in it, or one file that cannot be read, is not JSON, or has another
// schema than this program reads.
Document read_document(const std::filesystem::path& folder);

}  // namespace spillway::decision
