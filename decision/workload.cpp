// workload.cpp - see workload.h.
#include "decision/workload.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

namespace spillway::decision {

const char* default_model(const DeviceInfo& device) {
  return device.is_host ? "small" : "qwen2.5-0.5b";
}

Workload::Workload(const WorkloadOptions& options, const DeviceInfo& device) : options_(options) {
  if (options_.model.empty()) options_.model = default_model(device);
  if (options_.dtype != "float32")
    throw Error(fmt::format("dtype '{}': this build computes in float32 only", options_.dtype));
  config_ = model::resolve_config(options_.model);
  config_.validate();
  model::check_shape(config_, options_.batch, options_.seq);
  if (options_.lmhead_chunk < -1)
    throw Error(fmt::format("lmhead-chunk {}: tokens of logits at a time, 0 for all at once", options_.lmhead_chunk));
  for (const auto& [name, value] :
       {std::pair("lr", options_.adamw.lr), std::pair("weight-decay", options_.adamw.weight_decay)})
    if (!std::isfinite(value) || value < 0) throw Error(fmt::format("{} {}: a finite number, 0 or more", name, value));
  tokens_ = data::open_tokens(options_.data, config_.vocab, options_.seed);
  if (std::filesystem::is_directory(options_.model)) weights_ = model::Safetensors::open_folder(options_.model);
}

std::unique_ptr<model::Trainer> Workload::trainer(const std::string& strategy,
                                                  memory::CachingAllocator& allocator) const {
  model::TrainerOptions t;
  t.batch = options_.batch;
  t.seq = options_.seq;
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
