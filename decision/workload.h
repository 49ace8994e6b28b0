// workload.h - what is trained in a measurement: model, shape, tokens, seed. Resolved and checked before anything is
// allocated or any folder is made, so that bad input costs one line and no time.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokens.h"
#include "kernels/adamw.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "model/trainer.h"
#include "runtime/cuda.h"

namespace spillway::decision {

// The protocol's seq_lens: 76's workloads smoke and pressure, and what 73 takes.
inline constexpr std::int64_t kSmokeSeq = 512, kPressureSeq = 768, kBaselineSeq = 256;

struct WorkloadOptions {
  std::string model;  // preset or folder; empty: small on the host, qwen2.5-0.5b on a GPU
  std::int64_t seq = 768, batch = 1;
  bool seq_is_default = false;  // nobody asked for it: a model with fewer positions takes as many as it has
  std::string dtype = "float32";
  std::uint64_t seed = 42;
  std::string data;                // empty: random tokens
  std::int64_t lmhead_chunk = -1;  // see TrainerOptions
  kernels::AdamW adamw;
};

class Workload {
 public:
  // Error: unknown model, seq or batch out of range, sizes that overflow, a dtype that the device cannot do, bad data.
  Workload(const WorkloadOptions& options, const DeviceInfo& device);

  const model::Config& config() const { return config_; }
  const WorkloadOptions& options() const { return options_; }
  data::TokenSource& tokens() { return *tokens_; }
  // A trainer with this workload's weights: the folder's safetensors, else drawn from the seed.
  std::unique_ptr<model::Trainer> trainer(const std::string& strategy, memory::Allocator& allocator) const;

 private:
  WorkloadOptions options_;
  model::Config config_;
  std::unique_ptr<data::TokenSource> tokens_;
  std::optional<model::Safetensors> weights_;
};

// "float32", "bfloat16" or "tf32" from those names and the short ones, fp32 and bf16. Error: anything else.
std::string canonical_dtype(const std::string& name);

// Error, with the names to choose from, unless each is a memory strategy, named once.
void check_strategies(const std::vector<std::string>& names);
// Those of PROTOCOL.md: baseline, checkpoint, offload, hybrid.
std::vector<std::string> default_strategies();

// The preset used when none is named.
const char* default_model(const DeviceInfo& device);

}  // namespace spillway::decision
