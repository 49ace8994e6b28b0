// check_run.cpp - see check_run.h. Each question is a function that returns what it saw, or throws No with the reason.
#include "decision/check_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "decision/budget_decision.h"
#include "decision/json_file.h"
#include "decision/measurement.h"
#include "decision/normalize.h"
#include "decision/profiling_closeout.h"
#include "decision/rules_json.h"
#include "decision/source_record.h"
#include "decision/training_baseline.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace fs = std::filesystem;
namespace {
using Json = nlohmann::ordered_json;

class No : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// ---- reading --------------------------------------------------------------------------------------------------------

// The first of `names` that stands in the folder. A real GPU's record comes before a host's.
std::string find_record(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (fs::exists(folder / name)) return name;
  throw No(fmt::format("{} is missing", fmt::join(names, " or ")));
}

Json read(const fs::path& file) {
  try {
    return read_json(file);
  } catch (const Error& e) {
    throw No(e.what());
  }
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key)) throw No(fmt::format("{} has no {}", where, key));
  return object[key];
}

double figure(const Json& object, const char* key, const std::string& where) {
  const auto value = number_at(object, key);
  if (!value || !std::isfinite(*value)) throw No(fmt::format("{}: {} is not a finite number", where, key));
  return *value;
}

// ---- saying the same twice ------------------------------------------------------------------------------------------

// Exact bytes beside every figure in MiB: "peak_memory_bytes" beside "peak_memory_mb".
void check_bytes(const Json& node, const std::string& where) {
  if (node.is_array())
    for (const Json& child : node) check_bytes(child, where);
  if (!node.is_object()) return;
  for (const auto& [key, value] : node.items()) {
    check_bytes(value, where);
    if (!key.ends_with("_mb") || !value.is_number()) continue;
    const auto bytes = number_at(node, key.substr(0, key.size() - 2) + "bytes");
    if (bytes && std::abs(*bytes - value.get<double>() * 1024 * 1024) > 1)
      throw No(fmt::format("{}: {} is {}, but the bytes beside it are {:.0f}", where, key, value.dump(), *bytes));
  }
}

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max({1.0, std::abs(a), std::abs(b)});
}

// Everything that `again` has must stand in `stored`, numbers to a millionth.
void must_agree(const Json& stored, const Json& again, const std::string& where) {
  if (again.is_number() && stored.is_number()) {
    const bool whole = again.is_number_integer() && stored.is_number_integer();
    if (whole ? again != stored : !close(stored.get<double>(), again.get<double>()))
      throw No(fmt::format("{} is {}, but computed again it is {}", where, stored.dump(), again.dump()));
  } else if (again.is_object() && stored.is_object()) {
    for (const auto& [key, value] : again.items())
      must_agree(member(stored, key.c_str(), where), value, fmt::format("{}.{}", where, key));
  } else if (again.is_array() && stored.is_array() && again.size() == stored.size()) {
    for (std::size_t i = 0; i < again.size(); ++i) must_agree(stored[i], again[i], fmt::format("{}[{}]", where, i));
  } else if (stored != again) {
    throw No(fmt::format("{} is {}, but computed again it is {}", where, stored.dump(), again.dump()));
  }
}

void check_sidecar(const fs::path& folder, const std::string& record, const Json& raw) {
  const std::string name = sidecar_name(record);
  if (!fs::exists(folder / name)) throw No(fmt::format("{} is missing: spillway normalize makes it", name));
  Json expected = normalize(raw, record);
  expected.erase("legacy_source");  // where the raw record stood when the sidecar was made
  must_agree(read(folder / name), expected, name);
}

// ---- what was measured ----------------------------------------------------------------------------------------------

// The samples of one candidate or arm: every repeat asked for, the same losses in each, steady times, and a median
// that is theirs. Returns the losses of one repeat.
// `noise` gets the first complaint about unsteady times: told last, because it contradicts nothing.
std::vector<double> check_samples(const Json& m, const std::string& name, const Json& config, std::string& noise) {
  const Json& samples = member(m, "samples", name);
  constexpr double kMost = 1e6;
  const double repeats_asked = figure(config, "repeats", "config"), iters_asked = figure(config, "iters", "config");
  if (!(repeats_asked >= 1 && repeats_asked <= kMost && iters_asked >= 1 && iters_asked <= kMost))
    throw No("config: repeats and iters are no numbers of steps");
  const auto repeats = static_cast<int>(repeats_asked);
  const auto iters = static_cast<std::size_t>(iters_asked);
  if (repeats < 2) throw No("a single repeat: nothing shows that another would give the same");
  std::vector<double> times;
  std::vector<std::vector<double>> losses(static_cast<std::size_t>(repeats));
  for (const Json& s : samples) {
    times.push_back(figure(s, "step_time_ms", name));
    if (times.back() <= 0) throw No(fmt::format("{}: a step that took {} ms", name, times.back()));
    const double repeat = figure(s, "repeat", name);
    if (repeat < 1 || repeat > repeats) throw No(fmt::format("{}: a sample of repeat {}", name, repeat));
    losses[static_cast<std::size_t>(repeat) - 1].push_back(figure(s, "loss", name));
  }
  for (const auto& of_repeat : losses) {
    if (of_repeat.size() != iters)
      throw No(fmt::format("{}: {} samples where {} repeats of {} steps were asked for", name, samples.size(), repeats,
                           iters));
    if (of_repeat != losses[0]) throw No(fmt::format("{}: the losses of its repeats differ", name));
  }
  for (const auto& [key, what] : {std::pair("peaks_agree", "peaks"), std::pair("losses_agree", "losses")})
    if (member(m, key, name) != true) throw No(fmt::format("{}: the {} of its repeats differ", name, what));
  if (!close(figure(m, "step_time_ms", name), median(times)))
    throw No(fmt::format("{}: step_time_ms is {}, but the median of its samples is {}", name,
                         figure(m, "step_time_ms", name), median(times)));
  const double batch = number_at(m, "batch_size").value_or(figure(config, "batch_size", "config"));
  must_agree(m["samples_per_s"], 1000 * batch / median(times), name + ".samples_per_s");
  must_agree(m["loss"], losses[0].back(), name + ".loss");
  const double spread = median_absolute_deviation(times) / median(times);
  if (spread > kNoisySpread && noise.empty())
    noise = fmt::format("{}: step times spread by {:.1f}%, more than {:.0f}%: measure again on a quiet machine", name,
                        100 * spread, 100 * kNoisySpread);
  return losses[0];
}

// ---- the questions --------------------------------------------------------------------------------------------------

struct Records {
  fs::path folder;
  std::string name_73, name_76;  // as found; empty when not
};

std::string ask_73(Records& r) {
  r.name_73 = find_record(r.folder, {"73_real_gpu_training.json", "73_host_training.json"});
  const Json raw = read(r.folder / r.name_73);
  const Json& config = member(raw, "config", r.name_73);
  if (!text_at(config, "varied")) throw No("config.varied does not name the one variable that differs");
  std::string noise;
  ArmFigures arms[2];
  for (int i = 0; i < 2; ++i) {
    const char* name = i == 0 ? "baseline" : "tuned";
    const Json& arm = member(raw, name, r.name_73);
    if (text_at(arm, "status").value_or("ok") != "ok")
      throw No(
          fmt::format("{}: {}: {}", name, *text_at(arm, "status"), text_at(arm, "error").value_or("no reason given")));
    check_samples(arm, name, config, noise);
    arms[i] = {figure(arm, "step_time_ms", name), figure(arm, "peak_mem_mb", name), figure(arm, "eval_loss", name)};
  }
  const BaselineSummary summary = compare(arms[0], arms[1]);
  must_agree(member(raw, "summary", r.name_73), baseline_summary_json(summary), "summary");
  const Decision decision = decide_baseline(summary, arms[0], arms[1]);
  must_agree(member(raw, "decision", r.name_73), {{"decision", decision.decision}, {"reason", decision.reason}},
             "decision");
  must_agree(member(raw, "loss_delta_tuned_minus_baseline", r.name_73),
             figure(raw["tuned"], "loss", "tuned") - figure(raw["baseline"], "loss", "baseline"), "loss_delta");
  check_bytes(raw, r.name_73);
  check_sidecar(r.folder, r.name_73, raw);
  if (!noise.empty()) throw No(noise);
  return fmt::format("{} repeats agree in every loss and byte; {} varied, {}", config["repeats"].get<int>(),
                     *text_at(config, "varied"), decision.decision);
}

// 76 names the 73 record that it builds on: the same model, device and seed, and the dtype of that record's baseline.
void check_source_73(const Json& raw, const Records& r) {
  const auto source = text_at(raw, "source_baseline");
  if (!source) return;
  const fs::path file = fs::path(*source).is_absolute() ? fs::path(*source) : r.folder / *source;
  if (!fs::exists(file)) throw No(fmt::format("source_baseline {} is missing", *source));
  const Json baseline = read(file);
  const Json &ours = member(raw, "config", r.name_76), &theirs = member(baseline, "config", *source);
  for (const char* key : {"model_id", "device", "seed"})
    if (ours.contains(key) && theirs.contains(key) && ours[key] != theirs[key])
      throw No(fmt::format("config.{} is {}, but {} of its source_baseline {}", key, ours[key].dump(),
                           theirs[key].dump(), *source));
  const auto dtype = text_at(value_at(baseline, "baseline"), "dtype");
  if (dtype && text_at(ours, "amp_dtype").value_or(*dtype) != *dtype)
    throw No(fmt::format("config.amp_dtype is {}, but its source_baseline {} was measured in {}",
                         ours["amp_dtype"].dump(), *source, *dtype));
}

std::string ask_76(Records& r) {
  r.name_76 = find_record(r.folder, {"76_real_gpu_memory.json", "76_host_memory.json"});
  const Json raw = read(r.folder / r.name_76);
  const Json& config = member(raw, "config", r.name_76);
  const Json& list = member(raw, "candidates", r.name_76);
  const std::vector<Candidate> candidates = record_candidates(raw, r.name_76);
  std::vector<double> losses;
  std::optional<double> eval_loss;
  std::string noise;
  bool baseline = false;
  int measured = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string& name = candidates[i].name;
    if (candidates[i].status != "ok") {
      if (!text_at(list[i], "error")) throw No(fmt::format("{}: {} without a reason", name, candidates[i].status));
      continue;
    }
    ++measured;
    baseline = baseline || name == "baseline";
    const std::vector<double> own = check_samples(list[i], name, config, noise);
    const double own_eval = figure(list[i], "eval_loss", name);
    if (!member(list[i], "cost", name).is_object()) throw No(fmt::format("{}: cost is no object", name));
    if (eval_loss && (own != losses || own_eval != *eval_loss))
      throw No(fmt::format("{}: its losses are not those of the others: it trained something else", name));
    losses = own;
    eval_loss = own_eval;
  }
  if (!baseline) throw No("the baseline was not measured: there is nothing to compare with");
  if (measured < 2) throw No("only the baseline was measured: there is nothing to compare");

  const Summary summary = summarize(candidates, record_budget(raw));
  must_agree(member(raw, "summary", r.name_76), summary_json(summary), "summary");
  must_agree(member(raw, "decision", r.name_76),
             decision_json(decide(summary, record_thresholds(raw), Wording::benchmark_76)), "decision");
  check_source_73(raw, r);
  check_bytes(raw, r.name_76);
  check_sidecar(r.folder, r.name_76, raw);
  if (!noise.empty()) throw No(noise);
  return fmt::format("{} of {} candidates measured, all with the same losses", measured, candidates.size());
}

std::string ask_75(const Records& r) {
  const std::string name = find_record(r.folder, {"75_memory_budget_decision.json"});
  const Json raw = read(r.folder / name);
  if (r.name_76.empty()) throw No("the 76 record that it decides on is missing");
  const fs::path source = r.folder / r.name_76;
  if (member(raw, "source", name) != file_identity(source.string()))
    throw No(fmt::format("it was decided on another file than {} as it is now: run spillway decide again", r.name_76));
  const BudgetDecision again = decide_budget(read(source), r.name_76, recorded_options(raw));
  must_agree(raw, budget_fields(again), name);
  Json candidates = Json::array();
  for (const Json& c : value_at(read(source), "candidates"))
    if (text_at(c, "status").value_or("ok") == "ok") candidates.push_back(c);
  must_agree(member(raw, "candidates", name), candidates, "candidates");
  check_bytes(raw, name);
  check_sidecar(r.folder, name, raw);
  if (again.sensitivity.conclusion != "stable")
    throw No("sensitive: another budget nearby decides otherwise; see sensitivity in " + name);
  return fmt::format("{} over the grid and its neighbours", again.point.decision.decision);
}

// A file that a record names must be the one that it named.
void check_named(const fs::path& folder, const Json& identity, const std::string& where) {
  const std::string file = text_at(identity, "file").value_or("");
  if (file.empty() || file.find('/') != std::string::npos) throw No(where + " names no file of this folder");
  if (!fs::exists(folder / file)) throw No(fmt::format("{}: {} is missing", where, file));
  if (identity != file_identity((folder / file).string()))
    throw No(fmt::format("{}: {} is not the file that the record was made with", where, file));
}

// A profile's sums: the exclusive ratios make the step, and so do the parts of its time, which is the time by events.
// Returns the step's time.
double check_profile(const Json& profile, const std::string& where, bool& complete) {
  constexpr double kSplitWithin = 0.02;
  if (text_at(profile, "unavailable")) throw No(fmt::format("{}: {}", where, *text_at(profile, "unavailable")));
  must_agree(1.0,
             figure(profile, "compute_ratio", where) + figure(profile, "exposed_transfer_ratio", where) +
                 figure(profile, "idle_ratio", where),
             where + ": the sum of compute, exposed transfer and idle");
  const Json& split = member(profile, "split", where);
  double sum = 0;
  for (const auto& [part, value] : split.items())
    if (part != "step_ms") sum += figure(split, part.c_str(), where);
  const double step = figure(split, "step_ms", where), events = figure(profile, "step_time_by_events_ms", where);
  must_agree(step, sum, where + ".split.step_ms");
  if (std::abs(step - events) > kSplitWithin * events)
    throw No(fmt::format("{}: the parts of a step sum to {:.3f} ms, but it took {:.3f} ms", where, step, events));
  const Json& lost = member(profile, "completeness", where);
  for (const char* kind : {"dropped", "zero_timestamps", "out_of_range", "unattributed"})
    complete = complete && figure(lost, kind, where) == 0;
  return step;
}

std::string ask_74(const Records& r) {
  const std::string name = find_record(r.folder, {"74_profiling_optimization.json"});
  const Json raw = read(r.folder / name);
  const Json &config = member(raw, "config", name), &list = member(raw, "candidates", name),
             &validation = member(raw, "validation", name);
  for (const char* source : {"73", "76", "75"})
    check_named(r.folder, member(member(raw, "sources", name), source, name), fmt::format("sources.{}", source));
  if (list.size() != 2) throw No(name + " has not two candidates");

  std::string noise;
  std::vector<double> losses[2], times[2];
  double eval_loss[2], step_ms[2], throughput[2], peak[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const char* candidate = i == 0 ? "baseline" : "tuned";
    if (text_at(list[i], "name") != candidate) throw No(fmt::format("{}: candidate {} is no {}", name, i, candidate));
    const Json& metrics = member(list[i], "metrics", candidate);
    losses[i] = check_samples(metrics, candidate, config, noise);
    eval_loss[i] = figure(metrics, "eval_loss", candidate);
    step_ms[i] = figure(metrics, "step_time_ms", candidate);
    throughput[i] = figure(metrics, "samples_per_s", candidate);
    peak[i] = figure(metrics, "peak_memory_bytes", candidate);
    for (const Json& s : metrics["samples"]) times[i].push_back(s["step_time_ms"].get<double>());
  }
  if (losses[0] != losses[1] || eval_loss[0] != eval_loss[1])
    throw No("the losses of baseline and tuned differ: they trained something else");
  must_agree(member(raw, "summary", name),
             {{"time_delta_ms", step_ms[0] - step_ms[1]},
              {"samples_per_s_delta", throughput[1] - throughput[0]},
              {"peak_memory_delta_bytes", static_cast<std::int64_t>(peak[0] - peak[1])}},
             "summary");

  bool complete = true;
  double profiled[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const char* key = i == 0 ? "baseline_profile" : "profile";
    const Json& profile = member(raw, key, name);
    profiled[i] = check_profile(profile, key, complete);
    check_named(r.folder, member(profile, "trace", key), fmt::format("{}.trace", key));
    must_agree(member(profile, "overhead", key), figure(profile, "profiled_step_time_ms", key) / step_ms[i],
               fmt::format("{}.overhead", key));
  }
  const double measured = step_ms[1] - step_ms[0], explained = profiled[1] - profiled[0];
  must_agree(validation,
             {{"profile_complete", complete},
              {"loss_equal", true},
              {"measured_difference_ms", measured},
              {"explained_difference_ms", explained},
              {"noise_ms", noise_of_difference(times[0], times[1])}},
             "validation");
  CloseoutThresholds thresholds;
  thresholds.explained_within = figure(member(raw, "thresholds", name), "explained_within", "thresholds");
  must_agree(validation,
             {{"explained", explains(measured, explained, figure(validation, "noise_ms", "validation"), thresholds)}},
             "validation");
  const Decision decision = closeout_decision_of(raw);
  must_agree(member(raw, "decision", name), decision_json(decision), "decision");
  check_bytes(raw, name);
  if (!complete) throw No("the profile is incomplete: completeness says what was lost");
  if (member(validation, "explained", name) != true)
    throw No(
        fmt::format("tuned takes {:+.2f} ms a step and the profile explains {:+.2f} ms of it", measured, explained));
  if (!noise.empty()) throw No(noise);
  return fmt::format("{} takes {:+.2f} ms a step, by the profile {:+.2f} ms; {}",
                     text_at(config, "tuned").value_or("tuned"), measured, explained, decision.decision);
}

}  // namespace

bool RunCheck::all_hold() const {
  return std::all_of(answers.begin(), answers.end(), [](const Answer& a) { return a.yes; });
}

RunCheck check_run(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw Error(fmt::format("{}: no such run folder", folder.string()));
  RunCheck check;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with('.'))
      check.files.push_back({entry.path().filename().string(), entry.file_size()});
  std::sort(check.files.begin(), check.files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });

  Records records{folder, {}, {}};
  const auto ask = [&](const char* question, auto&& answer) {
    Answer a{question, false, ""};
    try {
      a.reason = answer(records);
      a.yes = true;
    } catch (const std::exception& no) {
      a.reason = no.what();
    }
    check.answers.push_back(a);
  };
  ask("73 gives a reproducible baseline?", ask_73);
  ask("76 compares the candidates and their costs?", ask_76);
  ask("75 stays stable over the budgets?", ask_75);
  ask("74 explains the end-to-end gain with profiling evidence?", ask_74);
  return check;
}

}  // namespace spillway::decision
