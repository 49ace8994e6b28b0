// config.h - the shape of a decoder-only transformer of the Qwen2 / Llama family, from a preset or from a Hugging Face
// config.json.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::model {

// Whether `model` is a folder in Hugging Face's layout, by a slash or by being one; a preset's name always is the
// preset.
bool names_a_folder(const std::string& model);

struct Config {
  std::string name;  // preset, or the folder's name
  std::int64_t vocab = 0, d = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  std::int64_t max_positions = 0;
  double rope_theta = 10000.0;
  float rms_eps = 1e-6f;
  bool tied = false;  // lm_head is the embedding
  bool qkv_bias = false;

  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t parameters() const;
  // Error, one line: heads not divisible by kv_heads, head_dim the kernels do not have, a size that is not positive ...
  void validate() const;
};

const std::vector<std::string>& preset_names();
// Error listing the presets when `name` is none.
Config preset(std::string_view name);
// Reads folder/config.json. Error, one line with the file's name: missing, not JSON, a field missing or of the wrong
// type, or anything that this transformer would compute differently (architecture, activation, scaled rotary positions,
// sliding window, quantized weights).
Config read_config(const std::filesystem::path& folder);
// A preset's name, or a folder that holds config.json.
Config resolve_config(const std::string& model);

}  // namespace spillway::model
