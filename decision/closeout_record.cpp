// closeout_record.cpp - experiment 74 as a file: PROTOCOL.md's fields, and beside them what the decision can be
// computed from again.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "decision/json_file.h"
#include "decision/profiling_closeout.h"
#include "decision/rules_json.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace {
using Json = nlohmann::ordered_json;

// Of the record: the longest by time. The rest is in the trace.
constexpr std::size_t kTopOperators = 20;

Json split_json(const profiler::StepSplit& s) {
  return {{"step_ms", s.step_ms},
          {"compute_ms", s.compute_ms},
          {"recompute_ms", s.recompute_ms},
          {"optimizer_ms", s.optimizer_ms},
          {"exposed_copy_out_ms", s.exposed_copy_out_ms},
          {"exposed_copy_in_ms", s.exposed_copy_in_ms},
          {"allocation_ms", s.allocation_ms},
          {"idle_ms", s.idle_ms}};
}

Json operators_json(const std::vector<profiler::Operator>& operators) {
  Json list = Json::array();
  for (const profiler::Operator& o : operators) {
    if (list.size() == kTopOperators) break;
    const bool declared = o.flops > 0 || o.bytes > 0;
    list.push_back({{"name", o.name},
                    {"calls", o.calls},
                    {"total_ms", o.total_ms},
                    {"share", o.share},
                    {"flops", declared ? Json(o.flops) : Json(nullptr)},
                    {"bytes", declared ? Json(o.bytes) : Json(nullptr)},
                    {"achieved_tflops", number_or_null(o.achieved_tflops)},
                    {"achieved_gbs", number_or_null(o.achieved_gbs)}});
  }
  return list;
}

Json completeness_json(const profiler::Completeness& c) {
  return {{"records", c.records},
          {"dropped", c.dropped},
          {"zero_timestamps", c.zero_timestamps},
          {"out_of_range", c.out_of_range},
          {"unattributed", c.unattributed}};
}

Json profile_json(const ProfiledCandidate& c, const Json& trace) {
  Json p;
  p["tool"] = text_or_null(c.tool);
  if (!c.analysis) {
    p["unavailable"] = c.unavailable.empty() ? "no work was recorded" : c.unavailable;
    return p;
  }
  const profiler::Ratios& r = c.analysis->ratios;
  p["of"] = "the profiled step with the median time";
  p["trace_path"] = value_at(trace, "file");
  p["trace"] = trace;
  p["top_operators"] = operators_json(c.analysis->operators);
  p["compute_ratio"] = r.compute;
  p["memory_ratio"] = r.memory;
  p["communication_ratio"] = r.communication ? Json(*r.communication) : Json("not_applicable");
  p["exposed_transfer_ratio"] = r.exposed_transfer;
  p["idle_ratio"] = r.idle;
  p["idle_host_ratio"] = r.idle_host;
  p["idle_gap_ratio"] = r.idle_gap;
  p["overlap_ratio"] = r.overlap ? Json(*r.overlap) : Json("not_applicable");  // of copies, and there were none
  p["split"] = split_json(c.analysis->split);
  p["step_time_by_events_ms"] = c.step_events_ms;
  p["completeness"] = completeness_json(c.completeness);
  p["profiled_step_time_ms"] = median_step_ms(c.profiled);
  p["overhead"] = median_step_ms(c.profiled) / median_step_ms(c.measured);
  return p;
}

Json bottleneck_json(const ProfiledCandidate& c, const profiler::BottleneckThresholds& t) {
  if (!c.bottleneck) return nullptr;
  const profiler::Bottleneck& b = *c.bottleneck;
  return {{"category", b.category},
          {"evidence", b.evidence},
          {"optimization", b.optimization},
          {"predicted_saving_ms", number_or_null(b.predicted_saving_ms)},
          {"runner_up", text_or_null(b.runner_up)},
          {"margin", b.margin},
          {"thresholds",
           {{"reserved_share", t.reserved_share},
            {"exposed", t.exposed},
            {"idle", t.idle},
            {"idle_host_share", t.idle_host_share},
            {"roofline_share", t.roofline_share},
            {"balanced_margin", t.balanced_margin}}}};
}

// How far the split's sum is from the step's time by events, as a share of it: of the candidate where it is more.
double split_error(const Closeout& c) {
  double most = 0;
  for (const ProfiledCandidate* p : {&c.baseline, &c.tuned})
    most = std::max(most, std::abs(p->analysis->split.step_ms - p->step_events_ms) / p->step_events_ms);
  return most;
}

Json validation_json(const Closeout& c) {
  const CloseoutFigures& f = c.figures;
  Json v;
  v["same_workload"] = true;  // one Workload was built, and both were trained on it
  v["loss_equal"] = f.loss_equal;
  v["repeats"] = c.options.steps.repeats;
  const auto a = spread(c.baseline.measured), b = spread(c.tuned.measured);
  v["spread"] = a && b ? Json(std::max(*a, *b)) : Json(nullptr);
  v["profile_complete"] = f.profile_complete;
  v["measured_difference_ms"] = c.measured_difference_ms;
  v["noise_ms"] = c.noise_ms;
  v["explained_difference_ms"] = f.profiled ? Json(c.profiled_difference_ms) : Json(nullptr);
  v["explained"] = f.explained;
  if (!f.profiled) return v;
  const profiler::StepSplit &base = c.baseline.analysis->split, &tuned = c.tuned.analysis->split;
  const Json before = split_json(base), after = split_json(tuned);
  Json parts;
  for (const auto& [part, value] : after.items())
    if (part != "step_ms") parts[part] = value.get<double>() - before[part].get<double>();
  v["explained_by"] = parts;
  v["split_error"] = split_error(c);
  return v;
}

Json candidate_json(const ProfiledCandidate& c, const Steps& steps) {
  return {{"name", c.measured.name}, {"metrics", measured_fields(c.measured, "peak_memory", steps)}};
}

}  // namespace

Json closeout_record(const Closeout& c, const CloseoutFiles& files, const std::string& command_line) {
  Json r;
  r["schema_version"] = "profiling-optimization/v1";
  r["project"] = "74";
  r["stage"] = "profiling_driven_optimization";
  r["evidence_level"] = evidence_level(c.run.device);
  Json config = run_config(c.run, command_line);
  add_steps(config, c.options.steps);
  config["baseline"] = "baseline";
  config["tuned"] = c.choice.name;
  config["tuned_chosen_by"] = c.choice.chosen_by;
  r["config"] = config;
  r["candidates"] = {candidate_json(c.baseline, c.options.steps), candidate_json(c.tuned, c.options.steps)};
  r["profile"] = profile_json(c.tuned, value_at(files.traces, "tuned"));
  r["baseline_profile"] = profile_json(c.baseline, value_at(files.traces, "baseline"));
  r["ceilings"] = {{"tflops", number_or_null(c.ceilings.tflops)},
                   {"memory_gbs", number_or_null(c.ceilings.memory_gbs)},
                   {"host_to_device_gbs", number_or_null(c.ceilings.host_to_device_gbs)},
                   {"device_to_host_gbs", number_or_null(c.ceilings.device_to_host_gbs)}};
  r["bottleneck"] = bottleneck_json(c.tuned, c.options.bottleneck);
  r["baseline_bottleneck"] = bottleneck_json(c.baseline, c.options.bottleneck);
  r["validation"] = validation_json(c);
  const CloseoutFigures& f = c.figures;
  r["summary"] = {{"time_delta_ms", f.time_delta_ms},
                  {"samples_per_s_delta", f.samples_per_s_delta},
                  {"peak_memory_delta_bytes", c.baseline.measured.peak_bytes - c.tuned.measured.peak_bytes},
                  {"accepted_by_75", f.accepted_by_75}};
  r["thresholds"] = {{"time_delta_ms", c.options.thresholds.time_delta_ms},
                     {"samples_per_s_delta", c.options.thresholds.samples_per_s_delta},
                     {"explained_within", c.options.thresholds.explained_within},
                     {"noisy_spread", kNoisySpread}};
  r["previous"] = files.previous;
  r["decision"] = decision_json(c.decision);
  r["sources"] = files.sources;
  r["memory_timelines"] = files.timelines;
  return r;
}

Json compare_with_previous(const Closeout& c, const Json& previous, const std::string& file) {
  const Json bottleneck = value_at(previous, "bottleneck");
  const auto predicted = number_at(bottleneck, "predicted_saving_ms");
  std::optional<double> before;
  for (const Json& candidate : value_at(previous, "candidates"))
    if (text_at(candidate, "name") == "tuned") before = number_at(value_at(candidate, "metrics"), "step_time_ms");
  if (!predicted || !before) return nullptr;
  const double now = median_step_ms(c.tuned.measured);
  return {{"file", file},
          {"tuned", value_at(value_at(previous, "config"), "tuned")},
          {"git_commit", value_at(value_at(previous, "config"), "git_commit")},
          {"category", value_at(bottleneck, "category")},
          {"predicted_saving_ms", *predicted},
          {"step_time_ms", *before},
          {"measured_saving_ms", *before - now}};
}

Decision closeout_decision_of(const Json& record) {
  const Json validation = value_at(record, "validation"), summary = value_at(record, "summary"),
             thresholds = value_at(record, "thresholds");
  const auto figure = [](const Json& object, const char* key) {
    const auto value = number_at(object, key);
    if (!value) throw Error(fmt::format("{} is no number", key));
    return *value;
  };
  CloseoutThresholds t;
  t.time_delta_ms = figure(thresholds, "time_delta_ms");
  t.samples_per_s_delta = figure(thresholds, "samples_per_s_delta");
  t.explained_within = figure(thresholds, "explained_within");
  CloseoutFigures f;
  f.profiled = number_at(validation, "explained_difference_ms").has_value();
  f.profile_complete = value_at(validation, "profile_complete") == true;
  f.loss_equal = value_at(validation, "loss_equal") == true;
  f.time_delta_ms = figure(summary, "time_delta_ms");
  f.samples_per_s_delta = figure(summary, "samples_per_s_delta");
  f.memory_delta_bytes = figure(summary, "peak_memory_delta_bytes");
  f.accepted_by_75 = value_at(summary, "accepted_by_75") == true;
  f.explained =
      f.profiled && explains(figure(validation, "measured_difference_ms"),
                             figure(validation, "explained_difference_ms"), figure(validation, "noise_ms"), t);
  return decide_closeout(f, t);
}

}  // namespace spillway::decision
