// budget_record.cpp - experiment 75 as a file.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "decision/budget_decision.h"
#include "decision/json_file.h"
#include "decision/provenance.h"
#include "decision/rules_json.h"
#include "decision/run_record.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace {
using Json = nlohmann::ordered_json;

// What every cell of the grid stores.
Json cell(const Cell& c) {
  Json j = budget_json(c.budget);
  j["max_val_loss"] = number_or_null(c.budget.max_val_loss);
  const Json summary = summary_json(c.summary);
  for (const char* key :
       {"feasible_names", "best_candidate", "memory_saving_mb", "memory_saving_bytes", "throughput_ratio"})
    j[key] = summary[key];
  j["decision"] = c.decision.decision;
  j["reason"] = c.decision.reason;
  return j;
}

Json axis(const std::vector<std::optional<double>>& values) {
  Json j = Json::array();
  for (const auto& value : values) j.push_back(number_or_null(value));
  return j;
}

Json sensitivity(const Sensitivity& s) {
  Json accepted = Json::object();
  for (const auto& [name, share] : s.accepted_share) accepted[name] = share;
  Json neighbours = Json::array(), differing = Json::array();
  for (const Neighbour& n : s.neighbours) {
    Json j = {{"parameter", n.parameter}, {"direction", n.direction}};
    j.update(cell(n.cell));
    j["differs"] = n.differs;
    if (n.differs) differing.push_back(j);
    neighbours.push_back(j);
  }
  return {{"decision_shares", {{"accept", s.accept_share}, {"tune", s.tune_share}, {"reject", s.reject_share}}},
          {"accepted_shares", accepted},
          {"neighbours", neighbours},
          {"differing_neighbours", differing},
          {"conclusion", s.conclusion}};
}

// As given: what was absent stays null, so that the same question can be asked again.
Json options(const BudgetOptions& o) {
  return {{"memory_cap_mb", number_or_null(o.memory_cap_mb)},
          {"memory_cap_bytes", bytes_or_null(o.memory_cap_mb)},
          {"min_samples_per_s", number_or_null(o.min_samples_per_s)},
          {"max_val_loss", number_or_null(o.max_val_loss)},
          {"caps", o.caps},
          {"throughput_fractions", o.throughput_fractions},
          {"loss_margins", o.loss_margins},
          {"saving_threshold_mb", number_or_null(o.saving_threshold_mb)},
          {"saving_threshold_bytes", bytes_or_null(o.saving_threshold_mb)},
          {"throughput_threshold", number_or_null(o.throughput_threshold)}};
}

}  // namespace

Json budget_fields(const BudgetDecision& d) {
  Json j;
  j["budget"] = budget_json(d.point.budget);
  j["quality_floor"] = quality_floor_json(d.point.budget);
  j["thresholds"] = thresholds_json(d.thresholds);
  j["summary"] = summary_json(d.point.summary);
  j["decision"] = decision_json(d.point.decision);
  j["options"] = options(d.options);
  j["grid_axes"] = {
      {"memory_cap_mb", axis(d.caps)}, {"min_samples_per_s", axis(d.minima)}, {"max_val_loss", axis(d.floors)}};
  Json bytes = Json::array();
  for (const auto& cap : d.caps) bytes.push_back(bytes_or_null(cap));
  j["grid_axes"]["memory_cap_bytes"] = bytes;
  j["grid"] = Json::array();
  for (const Cell& c : d.grid) j["grid"].push_back(cell(c));
  j["sensitivity"] = sensitivity(d.sensitivity);
  return j;
}

BudgetOptions recorded_options(const Json& record) {
  const Json j = value_at(record, "options");
  BudgetOptions o;
  o.memory_cap_mb = number_at(j, "memory_cap_mb");
  o.min_samples_per_s = number_at(j, "min_samples_per_s");
  o.max_val_loss = number_at(j, "max_val_loss");
  o.saving_threshold_mb = number_at(j, "saving_threshold_mb");
  o.throughput_threshold = number_at(j, "throughput_threshold");
  for (const Json& cap : value_at(j, "caps"))
    if (cap.is_string()) o.caps.push_back(cap.get<std::string>());
  const auto numbers = [&](const char* key, std::vector<double>& into) {
    const Json list = value_at(j, key);
    if (!list.is_array()) return;
    into.clear();
    for (const Json& value : list)
      if (value.is_number()) into.push_back(value.get<double>());
  };
  numbers("throughput_fractions", o.throughput_fractions);
  numbers("loss_margins", o.loss_margins);
  return o;
}

Json budget_record(const BudgetDecision& d, const Json& source_record, const Json& source, const std::string& command) {
  Json r;
  r["task"] = "task3_training_memory_optimization";
  r["stage"] = "memory_budget_decision";
  r["next_stage"] = "profiling_driven_optimization";
  r["evidence_level"] = value_at(source_record, "evidence_level");  // it measures nothing: its source's
  r["source"] = source;
  Json config = value_at(source_record, "config");
  if (!config.is_object()) config = Json::object();
  r["config"] = config;  // the source's, its git commit and command with it
  r["decided_by"] = {{"git_commit", text_or_null(git_commit())}, {"command", command}};
  Json candidates = Json::array();
  for (const Json& c : value_at(source_record, "candidates"))
    if (text_at(c, "status").value_or("ok") == "ok") candidates.push_back(c);
  r["candidates"] = candidates;
  r.update(budget_fields(d));
  return r;
}

Json file_identity(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in) throw Error(fmt::format("cannot read {}", path));
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return {{"file", std::filesystem::path(path).filename().string()},
          {"bytes", text.size()},
          {"fnv1a64", fmt::format("{:016x}", hash)}};
}

}  // namespace spillway::decision
