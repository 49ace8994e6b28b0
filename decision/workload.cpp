// workload.cpp - see workload.h.
#include "decision/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace spillway::decision {

const char* default_model(const DeviceInfo& device) {
  return device.is_host ? "small" : "qwen2.5-0.5b";
}

void check_strategies(const std::vector<std::string>& names) {
  const auto& known = activation::strategy_names();
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(fmt::format("unknown strategy '{}': choose from {}", name, fmt::join(known, ", ")));
    if (!seen.insert(name).second) throw Error(fmt::format("strategy '{}' is named twice", name));
  }
}

std::vector<std::string> default_strategies() {
  return {"baseline", "checkpoint", "offload", "hybrid"};
}

std::string canonical_dtype(const std::string& name) {
  return model::to_string(model::parse_precision(name));
}

Workload::Workload(const WorkloadOptions& options, const DeviceInfo& device) : options_(options) {
  if (options_.model.empty()) options_.model = default_model(device);
  const model::Precision precision = model::parse_precision(options_.dtype);
  model::check_precision(precision, device);
  options_.dtype = model::to_string(precision);
  config_ = model::resolve_config(options_.model);
  config_.validate();
  if (options_.seq_is_default) options_.seq = std::min(options_.seq, config_.max_positions);
  model::check_shape(config_, options_.batch, options_.seq);
  if (options_.lmhead_chunk < -1)
    throw Error(fmt::format("lmhead-chunk {}: tokens of logits at a time, 0 for all at once", options_.lmhead_chunk));
  for (const auto& [name, value] :
       {std::pair("lr", options_.adamw.lr), std::pair("weight-decay", options_.adamw.weight_decay)})
    if (!std::isfinite(value) || value < 0) throw Error(fmt::format("{} {}: a finite number, 0 or more", name, value));
  tokens_ = data::open_tokens(options_.data, config_.vocab, options_.seed);
  if (model::names_a_folder(options_.model)) weights_ = model::Safetensors::open_folder(options_.model);
}

std::unique_ptr<model::Trainer> Workload::trainer(const std::string& strategy, memory::Allocator& allocator) const {
  model::TrainerOptions t;
  t.batch = options_.batch;
  t.seq = options_.seq;
  t.precision = model::parse_precision(options_.dtype);
  t.strategy = strategy;
  t.lmhead_chunk = options_.lmhead_chunk;
  t.adamw = options_.adamw;
  auto trainer = std::make_unique<model::Trainer>(config_, t, allocator);
  if (weights_)
    trainer->parameters().load(*weights_);
  else
    trainer->parameters().initialize(options_.seed);
  return trainer;
}

}  // namespace spillway::decision
