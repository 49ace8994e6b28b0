// workload.cpp - see workload.h.
#include "decision/workload.h"

#include <fmt/format.h>

#include <filesystem>

#include "model/saved_tensors.h"

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
  if (options_.seq < 2)
    throw Error(
        fmt::format("seq {}: a row needs at least 2 tokens, one to predict from and one to predict", options_.seq));
  if (options_.seq > config_.max_positions)
    throw Error(fmt::format("seq {}: {} has {} positions", options_.seq, config_.name, config_.max_positions));
  if (options_.batch < 1) throw Error(fmt::format("batch {}: at least 1 row", options_.batch));
  if (options_.lmhead_chunk < -1)
    throw Error(fmt::format("lmhead-chunk {}: tokens of logits at a time, 0 for all at once", options_.lmhead_chunk));
  model::layer_spec(config_, options_.batch, options_.seq, sizeof(float));  // refuses sizes that overflow
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
