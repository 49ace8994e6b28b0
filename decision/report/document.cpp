// document.cpp - see document.h.
#include "decision/report/document.h"

#include <fmt/format.h>

#include <algorithm>

#include "decision/json_file.h"
#include "decision/normalize.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace fs = std::filesystem;
namespace {

constexpr const char* kProfilingSchema = "profiling-optimization/v1";
constexpr const char* kTimelineSchema = "memory-timeline/v1";

class Reader {
 public:
  explicit Reader(Document& document) : document_(document) {}

  // The first of the names that stands in the folder; else it is missing.
  Node need(const std::vector<std::string>& names, const std::string& what) {
    for (const std::string& name : names)
      if (fs::exists(document_.folder / name)) return read(name);
    document_.missing.push_back({names.back(), what});
    return {};
  }
  // A file that a record names: one of this folder.
  Node named(const Node& name, const std::string& what) {
    if (!name.present()) return {};
    const std::string file = name.text();
    if (file.find('/') != std::string::npos || file.empty() || file.starts_with('.'))
      throw Error(fmt::format("{}: '{}' is no file name of the run's folder", name.source(), file));
    return need({file}, what);
  }
  Node read(const std::string& name) {
    document_.files.push_back({name, read_json(document_.folder / name)});
    Node root(document_.files.back());
    if (!root.json().is_object()) throw Error(fmt::format("{}: a record is a JSON object", name));
    return root;
  }
  Node sidecar(const Node& record, const std::string& file) {
    return record.present() ? need({sidecar_name(file)}, "the normalized sidecar of " + file) : Node();
  }
  std::string last() const { return document_.files.empty() ? "" : document_.files.back().file; }

 private:
  Document& document_;
};

void must_have_schema(const Node& root, const char* schema) {
  if (root.present() && root["schema_version"].text() != schema)
    throw Error(fmt::format("{}/schema_version is '{}': this program reads {}", root.source(),
                            root["schema_version"].text(), schema));
}

// As the 74 record names them; without it, all that lie in the folder.
void read_timelines(Document& d, Reader& reader) {
  if (d.profiling.present()) {
    for (const Node& name : d.profiling["memory_timelines"].children())
      if (const Node root = reader.named(name, fmt::format("the memory timeline of {}", name.key())); root.present())
        d.timelines.push_back({name.key(), root});
  } else {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(d.folder))
      if (const std::string name = entry.path().filename().string();
          name.starts_with("74_memory_") && name.ends_with(".json"))
        names.push_back(name);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const Node root = reader.read(name);
      d.timelines.push_back({root["strategy"].text(), root});
    }
  }
  for (const Document::Timeline& timeline : d.timelines) must_have_schema(timeline.root, kTimelineSchema);
  const std::vector<Node> candidates = d.benchmark["candidates"].children();
  const auto rank = [&](const Document::Timeline& t) {
    return std::find_if(candidates.begin(), candidates.end(),
                        [&](const Node& c) { return c["name"].text() == t.strategy; }) -
           candidates.begin();
  };
  std::stable_sort(d.timelines.begin(), d.timelines.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

}  // namespace

Node Document::config() const {
  for (const Node& record : {profiling, budget, benchmark, training})
    if (record["config"].present()) return record["config"];
  return {};
}

std::string Document::evidence_level() const {
  for (const Node& record : {profiling, budget, benchmark, training})
    if (record["evidence_level"].present()) return record["evidence_level"].text();
  return "";
}

bool Document::host() const {
  const std::string level = evidence_level();
  return !level.empty() && level != "single_gpu";
}

Document read_document(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw Error(fmt::format("{}: no such run folder", folder.string()));
  Document d;
  d.folder = folder;
  std::error_code ignored;
  const fs::path real = fs::canonical(folder, ignored);
  d.run = (ignored ? folder : real).filename().string();

  Reader reader(d);
  d.training = reader.need({"73_real_gpu_training.json", "73_host_training.json"}, "73, the training baseline");
  d.training_sidecar = reader.sidecar(d.training, reader.last());
  d.benchmark = reader.need({"76_real_gpu_memory.json", "76_host_memory.json"}, "76, the strategy benchmark");
  d.benchmark_sidecar = reader.sidecar(d.benchmark, reader.last());
  d.budget = reader.need({"75_memory_budget_decision.json"}, "75, the budget decision");
  d.budget_sidecar = reader.sidecar(d.budget, reader.last());
  d.profiling = reader.need({"74_profiling_optimization.json"}, "74, the profiling close-out");
  if (d.files.empty()) throw Error(fmt::format("{}: no record of 73, 76, 75 or 74 stands in it", folder.string()));
  must_have_schema(d.profiling, kProfilingSchema);
  d.trace_baseline = reader.named(d.profiling["baseline_profile"]["trace_path"], "the trace of the baseline's steps");
  d.trace_tuned = reader.named(d.profiling["profile"]["trace_path"], "the trace of the tuned steps");
  read_timelines(d, reader);
  d.check = check_run(folder);
  return d;
}

}  // namespace spillway::decision
