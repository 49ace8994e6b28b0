// parameters_test.cpp - the weights: Hugging Face's names and order, seeded values, files in 32 and 16 bits that come
// back exactly, and files that do not fit, which leave the model as it was.
#include "model/parameters.h"

#include <cmath>
#include <set>

#include "test/model/model_fixture.h"
#include "test/model/weight_files.h"

namespace spillway::test {
namespace {

using memory::Category;
using model::Parameter;
using model::Parameters;
using model::Safetensors;

std::vector<std::string> names_of(const Parameters& parameters) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters.all()) names.push_back(p.name);
  return names;
}

// The value of a 16-bit float by its definition: sign, exponent, fraction.
double half_value(std::uint16_t h, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (h >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = (h & ((1 << fraction_bits) - 1)) / std::ldexp(1.0, fraction_bits);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return h >> 15 ? -magnitude : magnitude;
}
// Random finite patterns.
std::vector<std::uint16_t> random_halves(std::int64_t n, int exponent_bits, std::mt19937& random) {
  const unsigned all_ones = ((1u << exponent_bits) - 1) << (15 - exponent_bits);
  std::vector<std::uint16_t> halves;
  while (static_cast<std::int64_t>(halves.size()) < n)
    if (const auto h = static_cast<std::uint16_t>(random()); (h & all_ones) != all_ones) halves.push_back(h);
  return halves;
}

struct ParametersFixture : HostDevice {
  Machine machine;
  Stream stream{"parameters"};
  TemporaryFolder folder;

  Parameters make(const model::Config& config) { return {config, machine.allocator, stream.get()}; }
  std::int64_t allocated(Category c) const {
    return machine.allocator.stats().by_category[static_cast<std::size_t>(c)];
  }
  Safetensors file(const std::vector<Entry>& entries) const {
    return Safetensors::open_file(write_file(folder.path() / "w.safetensors", safetensors_file(entries)));
  }
};

// A complete file for `parameters`, every tensor of random floats.
std::vector<Entry> float_entries(const Parameters& parameters) {
  std::mt19937 random(5);
  std::normal_distribution<float> draw;
  std::vector<Entry> entries;
  for (const Parameter& p : parameters.all()) {
    std::vector<float> values(static_cast<std::size_t>(p.elements()));
    for (float& value : values) value = draw(random);
    entries.push_back({p.name, "F32", bytes_of(values), p.shape});
  }
  return entries;
}

BOOST_FIXTURE_TEST_SUITE(parameters, ParametersFixture)

BOOST_AUTO_TEST_CASE(names_and_order_are_hugging_face_s) {
  model::Config config = tied_config();
  config.layers = 1;
  const std::vector<std::string> tied = {
      "model.embed_tokens.weight",
      "model.layers.0.input_layernorm.weight",
      "model.layers.0.self_attn.q_proj.weight",
      "model.layers.0.self_attn.k_proj.weight",
      "model.layers.0.self_attn.v_proj.weight",
      "model.layers.0.self_attn.q_proj.bias",
      "model.layers.0.self_attn.k_proj.bias",
      "model.layers.0.self_attn.v_proj.bias",
      "model.layers.0.self_attn.o_proj.weight",
      "model.layers.0.post_attention_layernorm.weight",
      "model.layers.0.mlp.gate_proj.weight",
      "model.layers.0.mlp.up_proj.weight",
      "model.layers.0.mlp.down_proj.weight",
      "model.norm.weight",
  };
  Parameters with_bias = make(config);
  BOOST_TEST(names_of(with_bias) == tied, boost::test_tools::per_element());
  BOOST_TEST(&with_bias.head() == &with_bias.embedding());

  config.tied = config.qkv_bias = false;
  Parameters without = make(config);
  BOOST_TEST(without.all().size() == tied.size() - 3 + 1);
  BOOST_TEST(without.head().name == "lm_head.weight");
  BOOST_TEST(without.final_norm().name == "model.norm.weight");
  BOOST_TEST(without.layer(0).q_bias == nullptr);
  BOOST_TEST(without.layer(0).down->name == "model.layers.0.mlp.down_proj.weight");
}

BOOST_AUTO_TEST_CASE(a_published_file_holds_exactly_these_tensors) {
  const Safetensors golden = Safetensors::open_folder(fixtures() / "tiny_qwen2");
  const Parameters parameters = make(model::read_config(fixtures() / "tiny_qwen2"));
  BOOST_TEST(parameters.all().size() == golden.tensors().size());
  for (const Parameter& p : parameters.all())
    BOOST_TEST(p.shape == golden.at(p.name).shape, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_config_counts_what_is_allocated) {
  hostcuda::set_books_only(true);
  const std::int64_t memory = hostcuda::device_memory();
  hostcuda::set_device_memory(64ll << 30);
  for (const std::string& name : model::preset_names()) {
    if (!kHostDevice && name != "tiny" && name != "small") continue;  // no books without memory there
    const model::Config config = model::preset(name);
    const Parameters parameters = make(config);
    std::int64_t elements = 0;
    for (const Parameter& p : parameters.all()) elements += p.elements();
    BOOST_TEST(elements == config.parameters(), name);
  }
  machine.allocator.release_cached();
  hostcuda::set_device_memory(memory);
}

BOOST_AUTO_TEST_CASE(values_and_gradients_are_in_their_categories) {
  Parameters parameters = make(untied_config());
  const std::int64_t values = allocated(Category::parameter);
  BOOST_TEST(values >= untied_config().parameters() * 4);
  BOOST_TEST(values == machine.allocator.stats().allocated);
  BOOST_TEST(!parameters.final_norm().gradient);

  float* gradient = parameters.gradient(parameters.final_norm());
  BOOST_TEST(gradient == parameters.gradient(parameters.final_norm()));  // the second use finds the first's memory
  BOOST_TEST(allocated(Category::gradient) == 512);                      // 40 floats, rounded
  parameters.clear_gradients();
  BOOST_TEST(allocated(Category::gradient) == 0);
  BOOST_TEST(machine.allocator.stats().allocated == values);
}

// ---- seeded ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_seed_gives_its_weights_and_no_two_tensors_share_them) {
  const auto values = [&](std::uint64_t seed) {
    Parameters parameters = make(tied_config());
    parameters.initialize(seed);
    return parameter_values(parameters);
  };
  const NamedTensors first = values(42), again = values(42), other = values(43);
  BOOST_TEST((first == again));
  std::set<float> seen;
  std::size_t drawn = 0;
  for (const auto& [name, x] : first) {
    if (name.find("norm") != std::string::npos) {
      BOOST_TEST((x == std::vector<float>(x.size(), 1.f)), name);
    } else if (name.ends_with(".bias")) {
      BOOST_TEST((x == std::vector<float>(x.size(), 0.f)), name);
    } else {
      BOOST_TEST((x != other.at(name)), name);
      double sum = 0, squares = 0;
      for (const float value : x) sum += value, squares += static_cast<double>(value) * value;
      const auto n = static_cast<double>(x.size());
      BOOST_TEST(std::abs(sum / n) < 5 * 0.02 / std::sqrt(n), name);
      BOOST_TEST(std::sqrt(squares / n) == 0.02, boost::test_tools::tolerance(0.1));
      seen.insert(x.begin(), x.begin() + 50);
      drawn += 50;
    }
  }
  // Not even shifted: of a quarter million values that can be drawn, few come twice.
  BOOST_TEST(seen.size() > drawn - drawn / 50);
}

// ---- from files -----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(floats_load_bit_for_bit) {
  const Safetensors golden = Safetensors::open_folder(fixtures() / "tiny_qwen2");
  Parameters parameters = make(model::read_config(fixtures() / "tiny_qwen2"));
  parameters.load(golden);
  for (const Parameter& p : parameters.all()) {
    const std::vector<float> values = model::read_back(p.value);
    BOOST_TEST(std::memcmp(values.data(), golden.at(p.name).data.data(), values.size() * sizeof(float)) == 0, p.name);
  }
}

BOOST_AUTO_TEST_CASE(sixteen_bits_load_exactly_and_leave_no_memory_behind) {
  // One tensor longer than a piece of the staging memory, most far shorter.
  model::Config config = tied_config();
  config.layers = 1;
  config.vocab = (1 << 20) / config.d + 100;
  Parameters parameters = make(config);
  // Takes what is left of the embedding's segment, so that whatever loading needs comes from a new one.
  const memory::Allocation rest = machine.allocator.allocate(15 << 20, Category::activation, stream.get(), "rest");
  const memory::Stats before = machine.allocator.stats();
  for (const auto& [dtype, exponent_bits] : {std::pair{"F16", 5}, {"BF16", 8}}) {
    std::mt19937 random(3);
    std::vector<Entry> entries;
    NamedTensors expected;
    for (const Parameter& p : parameters.all()) {
      const std::vector<std::uint16_t> halves = random_halves(p.elements(), exponent_bits, random);
      for (const std::uint16_t h : halves) expected[p.name].push_back(static_cast<float>(half_value(h, exponent_bits)));
      entries.push_back({p.name, dtype, bytes_of(halves), p.shape});
    }
    parameters.load(file(entries));
    BOOST_TEST((parameter_values(parameters) == expected), dtype);
    const memory::Stats& after = machine.allocator.stats();
    BOOST_TEST(after.allocated == before.allocated);
    BOOST_TEST(after.reserved == before.reserved);
    BOOST_TEST(after.max_by_category[static_cast<std::size_t>(Category::workspace)] == 2 << 20);
  }
}

BOOST_AUTO_TEST_CASE(tensors_that_the_model_does_not_have_are_ignored) {
  Parameters parameters = make(untied_config());
  std::vector<Entry> entries = float_entries(parameters);
  entries.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", std::string(16, 'i'), {4}});
  entries.push_back({"mask", "BOOL", "\1", {1}});
  BOOST_CHECK_NO_THROW(parameters.load(file(entries)));
}

BOOST_AUTO_TEST_CASE(a_file_that_does_not_fit_is_refused_and_changes_nothing) {
  Parameters parameters = make(untied_config());
  parameters.initialize(1);
  const NamedTensors before = parameter_values(parameters);
  const std::vector<Entry> right = float_entries(parameters);
  const auto refuses = [&](std::vector<Entry> entries, std::initializer_list<std::string_view> says) {
    check_refused([&] { parameters.load(file(entries)); }, says);
    BOOST_TEST((parameter_values(parameters) == before));
  };
  std::vector<Entry> entries = right;
  entries.pop_back();
  refuses(entries, {"lacks", "lm_head.weight"});
  entries = right;
  std::swap(entries.back().shape[0], entries.back().shape[1]);
  refuses(entries, {"lm_head.weight", "(40, 61)", "(61, 40)"});
  entries = right;
  entries.back().shape = {61 * 40};
  refuses(entries, {"lm_head.weight", "(2440)", "(61, 40)"});
  entries = right;
  entries.back().dtype = "I32";
  refuses(entries, {"lm_head.weight", "I32", "F32, F16 or BF16"});
  BOOST_CHECK_NO_THROW(parameters.load(file(right)));
}

BOOST_AUTO_TEST_CASE(a_tied_model_s_own_head_must_be_its_embedding) {
  Parameters parameters = make(tied_config());
  parameters.initialize(1);
  const NamedTensors before = parameter_values(parameters);
  std::vector<Entry> entries = float_entries(parameters);
  Entry head = entries.front();
  head.name = "lm_head.weight";
  head.data.back() ^= 1;
  entries.push_back(head);
  check_refused([&] { parameters.load(file(entries)); }, {"lm_head.weight", "embed_tokens", "tie_word_embeddings"});
  BOOST_TEST((parameter_values(parameters) == before));

  entries.back().data = entries.front().data;
  BOOST_CHECK_NO_THROW(parameters.load(file(entries)));
  entries.back().shape = {entries.front().shape[1], entries.front().shape[0]};
  check_refused([&] { parameters.load(file(entries)); }, {"lm_head.weight"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
