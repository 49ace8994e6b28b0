// config.cpp - presets, and Hugging Face's config.json read field by field: whatever this transformer would compute
// differently is refused by name, never ignored.
#include "model/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "kernels/attention.h"
#include "model/printable.h"
#include "runtime/error.h"

namespace spillway::model {
namespace {

constexpr std::int64_t kMostOfAnything = std::int64_t{1} << 31;  // keeps sums and products of two sizes within 64 bits
constexpr std::int64_t kMostLayers = 10'000;                     // a thousandfold model is a mistake in the file

// name, vocab, d, layers, heads, kv_heads, head_dim, ffn, max_positions, rope_theta, rms_eps, tied, qkv_bias
const std::vector<Config>& presets() {
  static const std::vector<Config> all = {
      {"tiny", 320, 64, 2, 4, 2, 16, 176, 256, 1e6, 1e-6f, true, true},
      {"small", 8192, 384, 6, 6, 2, 64, 1024, 32768, 1e4, 1e-6f, true, false},
      {"qwen2.5-0.5b", 151936, 896, 24, 14, 2, 64, 4864, 32768, 1e6, 1e-6f, true, true},
      {"qwen2.5-1.5b", 151936, 1536, 28, 12, 2, 128, 8960, 131072, 1e6, 1e-6f, true, true},
      {"deepseek-r1-distill-qwen-1.5b", 151936, 1536, 28, 12, 2, 128, 8960, 131072, 1e4, 1e-6f, false, true},
  };
  return all;
}

// config.json with the file's name in every complaint.
class Fields {
 public:
  explicit Fields(std::filesystem::path file) : file_(std::move(file)) {
    std::error_code ignored;  // no permission, a name too long: there is no such file for us
    if (!std::filesystem::exists(file_, ignored)) throw Error(fmt::format("{} does not exist", file_.string()));
    if (!std::filesystem::is_regular_file(file_, ignored)) fail("is not a regular file");
    const auto error = parser_.load(file_.string()).get(root_);
    if (error) fail(fmt::format("is not JSON: {}", simdjson::error_message(error)));
    if (!root_.is_object()) fail("must be one JSON object");
  }

  [[noreturn]] void fail(const std::string& what) const { throw Error(fmt::format("{}: {}", file_.string(), what)); }

  bool has(const char* name) const {
    simdjson::dom::element value;
    return !root_[name].get(value) && !value.is_null();
  }
  // A positive integer; `otherwise` when it is absent, an error when there is no otherwise.
  std::int64_t positive(const char* name, std::int64_t otherwise = 0) const {
    if (!has(name)) {
      if (otherwise > 0) return otherwise;
      fail(fmt::format("lacks \"{}\"", name));
    }
    std::int64_t value = 0;
    if (root_[name].get(value) || value < 1 || value > kMostOfAnything)
      fail(fmt::format("\"{}\" must be an integer from 1 to {}", name, kMostOfAnything));
    return value;
  }
  double positive_real(const char* name, double otherwise) const {
    if (!has(name)) return otherwise;
    double value = 0;
    if (root_[name].get(value) || !(value > 0)) fail(fmt::format("\"{}\" must be a positive number", name));
    return value;
  }
  bool boolean(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    bool value = false;
    if (root_[name].get(value)) fail(fmt::format("\"{}\" must be true or false", name));
    return value;
  }
  std::string text(const char* name, const char* otherwise) const {
    if (!has(name)) return otherwise;
    std::string_view value;
    if (root_[name].get(value)) fail(fmt::format("\"{}\" must be a string", name));
    return std::string(value);
  }
  // The base of the rotary angles. Older files give "rope_theta" and may give "rope_scaling"; newer ones put both into
  // "rope_parameters".
  double rope_theta() const {
    double theta = positive_real("rope_theta", 10000.0);
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
      if (!has(name)) continue;
      simdjson::dom::object rope;
      if (root_[name].get(rope)) fail(fmt::format("\"{}\" must be an object", name));
      std::string_view type;
      if ((rope["rope_type"].get(type) && rope["type"].get(type)) || type != "default")
        fail(fmt::format("\"{}\": scaled rotary positions are not supported; its type must be \"default\"", name));
      if (rope["rope_theta"].error() == simdjson::SUCCESS && (rope["rope_theta"].get(theta) || !(theta > 0)))
        fail(fmt::format("\"{}\": \"rope_theta\" must be a positive number", name));
    }
    return theta;
  }

 private:
  std::filesystem::path file_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Config& c : presets()) list.push_back(c.name);
    return list;
  }();
  return names;
}

Config preset(std::string_view name) {
  for (const Config& c : presets())
    if (c.name == name) return c;
  throw Error(fmt::format("unknown model '{}': choose from {}, or give a folder with config.json", name,
                          fmt::join(preset_names(), ", ")));
}

Config read_config(const std::filesystem::path& folder) {
  const Fields json(folder / "config.json");
  Config c;
  c.name = std::filesystem::canonical(folder).filename().string();
  const std::string type = json.text("model_type", "");
  if (type != "qwen2" && type != "llama")
    json.fail(fmt::format("\"model_type\" is \"{}\"; supported are \"qwen2\" and \"llama\"", printable(type)));
  c.vocab = json.positive("vocab_size");
  c.d = json.positive("hidden_size");
  c.layers = json.positive("num_hidden_layers");
  c.heads = json.positive("num_attention_heads");
  c.kv_heads = json.positive("num_key_value_heads", c.heads);
  if (!json.has("head_dim") && c.d % c.heads != 0)
    json.fail(fmt::format("\"hidden_size\" {} is not a multiple of \"num_attention_heads\" {}", c.d, c.heads));
  c.head_dim = json.positive("head_dim", c.d / c.heads);
  c.ffn = json.positive("intermediate_size");
  c.max_positions = json.positive("max_position_embeddings");
  c.rope_theta = json.rope_theta();
  const double eps = json.positive_real("rms_norm_eps", 1e-6);
  if (eps > 1) json.fail(fmt::format("\"rms_norm_eps\" is {}; it must be at most 1", eps));
  c.rms_eps = static_cast<float>(eps);
  c.tied = json.boolean("tie_word_embeddings", false);
  c.qkv_bias = type == "qwen2";
  // What this transformer does not compute.
  const std::string activation = json.text("hidden_act", "silu");
  if (activation != "silu")
    json.fail(fmt::format("\"hidden_act\" is \"{}\"; supported is \"silu\"", printable(activation)));
  if (type == "llama" && (json.boolean("attention_bias", false) || json.boolean("mlp_bias", false)))
    json.fail("biases in a llama's attention or MLP are not supported");
  if (json.boolean("use_sliding_window", false)) json.fail("\"use_sliding_window\" is not supported; it must be false");
  if (json.has("quantization_config")) json.fail("\"quantization_config\": quantized weights are not supported");
  try {
    c.validate();
  } catch (const Error& e) {
    json.fail(e.what());
  }
  return c;
}

bool names_a_folder(const std::string& model) {
  const auto& presets = preset_names();
  if (std::find(presets.begin(), presets.end(), model) != presets.end()) return false;
  std::error_code ignored;
  return model.find('/') != std::string::npos || std::filesystem::is_directory(model, ignored);
}

Config resolve_config(const std::string& model) {
  return names_a_folder(model) ? read_config(model) : preset(model);
}

std::int64_t Config::parameters() const {
  const auto mul = [](std::int64_t a, std::int64_t b) { return checked_mul(a, b, "parameters"); };
  const auto add = [](std::int64_t a, std::int64_t b) { return checked_add(a, b, "parameters"); };
  const std::int64_t qkv = add(q_width(), 2 * kv_width());
  std::int64_t layer = add(mul(d, add(qkv, q_width())), mul(3, mul(d, ffn)));
  layer = add(layer, add(2 * d, qkv_bias ? qkv : 0));
  return add(add(mul(layer, layers), d), mul(mul(vocab, d), tied ? 1 : 2));
}

void Config::validate() const {
  const struct {
    const char* name;
    std::int64_t value;
  } sizes[] = {{"vocabulary", vocab},  {"width", d},           {"layers", layers}, {"heads", heads},
               {"kv heads", kv_heads}, {"head_dim", head_dim}, {"ffn", ffn},       {"positions", max_positions}};
  for (const auto& s : sizes)
    if (s.value < 1 || s.value > kMostOfAnything)
      throw Error(fmt::format("model {}: {} is {}; it must be from 1 to {}", name, s.name, s.value, kMostOfAnything));
  if (layers > kMostLayers)
    throw Error(fmt::format("model {}: {} layers; at most {} are supported", name, layers, kMostLayers));
  if (heads % kv_heads != 0)
    throw Error(fmt::format("model {}: {} heads are not divisible by {} kv heads", name, heads, kv_heads));
  if (!kernels::attention_supports(head_dim))
    throw Error(fmt::format("model {}: head_dim {}; attention is built for 16, 32, 64 and 128", name, head_dim));
  parameters();  // refuses sizes that overflow
}

}  // namespace spillway::model
