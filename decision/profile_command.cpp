// profile_command.cpp - `spillway profile`: experiment 74 on the workload of a run that has 73, 76 and 75. The workload
// is the 76 record's, to the last option: what was decided is what is profiled.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "decision/json_file.h"
#include "decision/measuring.h"
#include "decision/record.h"
#include "model/config.h"
#include "profiler/trace.h"

namespace spillway::decision {
namespace fs = std::filesystem;
namespace {
using Json = nlohmann::ordered_json;

// ---- what the run has -----------------------------------------------------------------------------------------------

struct Source {
  std::string number;  // "76"
  fs::path path;
  Json record;
};

Source read_source(const fs::path& folder, const std::string& number, const std::string& name, const char* target) {
  const fs::path path = folder / name;
  if (!fs::exists(path))
    throw Error(fmt::format("{} is missing: 74 builds on 73, 76 and 75; run make {} first", path.string(), target));
  return {number, path, read_json(path)};
}

template <class T>
T required(const std::optional<T>& value, const Source& source, const char* what) {
  if (!value) throw Error(fmt::format("{}: {} is missing or of another kind", source.path.string(), what));
  return *value;
}

std::int64_t whole(const Json& object, const char* key, const Source& source) {
  constexpr double kMost = 9007199254740992.0;  // 2^53
  const double value = required(number_at(object, key), source, key);
  if (!(value >= 0 && value <= kMost) || value != static_cast<double>(static_cast<std::int64_t>(value)))
    throw Error(fmt::format("{}: {} is {}, not a whole number", source.path.string(), key, value));
  return static_cast<std::int64_t>(value);
}

std::vector<std::string> measured_strategies(const Source& benchmark) {
  std::vector<std::string> names;
  for (const Json& c : value_at(benchmark.record, "candidates"))
    if (text_at(c, "status").value_or("ok") == "ok") names.push_back(required(text_at(c, "name"), benchmark, "name"));
  check_strategies(names);
  return names;
}

WorkloadOptions workload_of(const Source& benchmark, const ProfileCommand& command) {
  const Json config = value_at(benchmark.record, "config");
  WorkloadOptions w;
  w.model = command.model.empty() ? required(text_at(config, "model_id"), benchmark, "model_id") : command.model;
  w.data = command.data;
  w.seq = whole(config, "seq_len", benchmark);
  w.batch = whole(config, "batch_size", benchmark);
  w.seed = static_cast<std::uint64_t>(whole(config, "seed", benchmark));
  w.dtype = required(text_at(config, "amp_dtype"), benchmark, "amp_dtype");
  if (command.seq && *command.seq != w.seq)
    throw Error(fmt::format("seq {}: 76 of this run was measured with {}, and 74 profiles what was measured",
                            *command.seq, w.seq));
  const Json optimizer = value_at(config, "optimizer");
  for (const auto& [key, field] :
       {std::pair("lr", &w.adamw.lr), std::pair("beta1", &w.adamw.beta1), std::pair("beta2", &w.adamw.beta2),
        std::pair("eps", &w.adamw.eps), std::pair("weight_decay", &w.adamw.weight_decay)})
    *field = static_cast<std::remove_pointer_t<decltype(field)>>(required(number_at(optimizer, key), benchmark, key));
  for (const Json& c : value_at(benchmark.record, "candidates"))
    if (number_at(c, "lmhead_chunk")) w.lmhead_chunk = whole(c, "lmhead_chunk", benchmark);
  return w;
}

// The same model, tokens and device as 76's.
void check_same(Workload& workload, const DeviceInfo& device, const Source& benchmark) {
  const Json config = value_at(benchmark.record, "config");
  const auto same = [&](const char* key, const std::string& ours, const char* remedy) {
    const std::string theirs = text_at(config, key).value_or("");
    if (ours != theirs)
      throw Error(
          fmt::format("{}: {} is '{}', here it would be '{}'; {}", benchmark.path.string(), key, theirs, ours, remedy));
  };
  same("model_id", workload.config().name, "give the same --model");
  same("tokens", workload.tokens().description(), "give the same --data");
  same("device", device.name, "profile where it was measured");
}

// ---- what an earlier run predicted ----------------------------------------------------------------------------------

// The latest 74 record beside this run that has the same workload.
std::optional<fs::path> find_previous(const fs::path& folder, const std::string& name, const Json& config) {
  std::optional<fs::path> latest;
  fs::file_time_type when;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder.parent_path(), ignored)) {
    const fs::path record = entry.path() / name;
    if (entry.is_symlink() || entry.path() == folder || !fs::is_regular_file(record, ignored)) continue;
    const fs::file_time_type written = fs::last_write_time(record, ignored);
    if (latest && written <= when) continue;
    try {
      const Json theirs = value_at(read_json(record), "config");
      const auto differs = [&](const char* key) { return value_at(theirs, key) != value_at(config, key); };
      if (differs("model_id") || differs("device") || differs("batch_size") || differs("seq_len") ||
          differs("amp_dtype"))
        continue;
    } catch (const Error&) {
      continue;  // somebody else's file, under this name
    }
    latest = record;
    when = written;
  }
  return latest;
}

Json previous_prediction(const Closeout& closeout, const ProfileCommand& command, const fs::path& folder,
                         const std::string& name, const Source& benchmark) {
  std::optional<fs::path> file;
  if (!command.previous.empty())
    file = command.previous;
  else
    file = find_previous(folder, name, value_at(benchmark.record, "config"));
  if (!file) return nullptr;
  return compare_with_previous(closeout, read_json(*file), fs::proximate(fs::absolute(*file), folder).string());
}

// ---- what it leaves -------------------------------------------------------------------------------------------------

// Traces and timelines: made before the record, which names them with their hashes.
class Artifacts {
 public:
  explicit Artifacts(fs::path folder) : folder_(std::move(folder)) {}
  ~Artifacts() {
    std::error_code ignored;
    if (!kept_)
      for (const fs::path& file : files_) fs::remove(file, ignored);
  }
  Artifacts(const Artifacts&) = delete;
  Artifacts& operator=(const Artifacts&) = delete;

  Json write(const std::string& name, const std::string& contents) {
    write_derived(folder_ / name, contents);
    files_.push_back(folder_ / name);
    return file_identity((folder_ / name).string());
  }
  void keep() { kept_ = true; }

 private:
  fs::path folder_;
  std::vector<fs::path> files_;
  bool kept_ = false;
};

CloseoutFiles write_artifacts(const Closeout& c, Artifacts& artifacts) {
  CloseoutFiles files;
  for (const ProfiledCandidate* p : {&c.baseline, &c.tuned})
    if (p->step)
      files.traces[p->measured.name] = artifacts.write(fmt::format("74_trace_{}.json", p->measured.name),
                                                       profiler::to_chrome_trace(*p->step, &p->memory));
  const char* evidence = evidence_level(c.run.device);
  for (const NamedTimeline& t : c.timelines) {
    const std::string stem = "74_memory_" + t.strategy;
    artifacts.write(stem + ".json", profiler::to_json(t.timeline, t.strategy, evidence));
    artifacts.write(stem + ".csv", profiler::to_csv(t.timeline));
    artifacts.write(stem + ".pickle", profiler::to_pickle(t.timeline));
    files.timelines[t.strategy] = stem + ".json";
  }
  return files;
}

}  // namespace

int profile(const ProfileCommand& command) {
  check_steps(command.closeout.steps);
  if (!fs::is_directory(command.folder)) throw Error(fmt::format("{}: no such run folder", command.folder));
  const fs::path path = fs::canonical(command.folder);
  const DeviceInfo device = require_device();
  const RecordNames names = record_names(device);
  const Source training = read_source(path, "73", names.training_73, "baseline"),
               benchmark = read_source(path, "76", names.benchmark_76, "bench"),
               budget = read_source(path, "75", names.decision_75, "decide");
  const TunedChoice choice = choose_tuned(benchmark.record, budget.record);
  check_strategies({choice.name});
  const std::vector<std::string> strategies = measured_strategies(benchmark);
  Workload workload(workload_of(benchmark, command), device);
  check_same(workload, device, benchmark);

  RunFolder folder(path.parent_path(), path.filename().string());
  Artifacts artifacts(path);
  record_run(folder, names.closeout_74, Sidecar::none, [&] {
    print_workload(workload, device, false, command.closeout.steps);
    Progress progress;
    const Closeout closeout = run_closeout(command.closeout, choice, strategies, device, workload, watch(progress));
    CloseoutFiles files = write_artifacts(closeout, artifacts);
    for (const Source* source : {&training, &benchmark, &budget})
      files.sources[source->number] = file_identity(source->path.string());
    files.previous = previous_prediction(closeout, command, path, names.closeout_74, benchmark);
    return Measured{closeout_record(closeout, files, command.command_line), closeout_report(closeout)};
  });
  artifacts.keep();
  return 0;
}

}  // namespace spillway::decision
