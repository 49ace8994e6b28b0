// config_test.cpp - the shape of a model: presets have the sizes that their publishers state, a config.json is read as
// Hugging Face means it, and one that this transformer would compute differently is refused by the field's name.
#include "model/config.h"

#include <map>
#include <random>

#include "test/bad_input.h"

namespace spillway::test {
namespace {

using model::Config;
using Fields = std::map<std::string, std::string>;  // name -> JSON value

// A small Qwen2.
const Fields kQwen = {{"model_type", "\"qwen2\""},  {"vocab_size", "320"},
                      {"hidden_size", "64"},        {"num_hidden_layers", "2"},
                      {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
                      {"intermediate_size", "176"}, {"max_position_embeddings", "256"},
                      {"rms_norm_eps", "1e-5"},     {"rope_theta", "500000.0"},
                      {"hidden_act", "\"silu\""},   {"tie_word_embeddings", "true"}};

struct ConfigFile {
  TemporaryFolder folder;

  void write(const std::string& text) const { write_file(folder.path() / "config.json", text); }
  // kQwen with some fields changed; an empty value takes the field away.
  Config read(const Fields& changes) const {
    Fields fields = kQwen;
    for (const auto& [name, value] : changes) fields[name] = value;
    std::string json;
    for (const auto& [name, value] : fields)
      if (!value.empty()) json += (json.empty() ? "{\"" : ",\"") + name + "\":" + value;
    write(json + "}");
    return model::read_config(folder.path());
  }
  void refuses(const Fields& changes, std::initializer_list<std::string_view> says) const {
    check_refused([&] { read(changes); }, says);
    check_refused([&] { read(changes); }, {(folder.path() / "config.json").string()});
  }
};

BOOST_FIXTURE_TEST_SUITE(config, ConfigFile)

// ---- presets --------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(presets_have_the_published_number_of_parameters) {
  const std::map<std::string, std::int64_t> published = {{"tiny", 113216},
                                                         {"small", 12'587'904},
                                                         {"qwen2.5-0.5b", 494'032'768},
                                                         {"qwen2.5-1.5b", 1'543'714'304},
                                                         {"deepseek-r1-distill-qwen-1.5b", 1'777'088'000}};
  BOOST_TEST(model::preset_names().size() == published.size());
  for (const std::string& name : model::preset_names()) {
    const Config c = model::preset(name);
    BOOST_TEST(c.name == name);
    BOOST_TEST(c.parameters() == published.at(name), name << ": " << c.parameters());
    BOOST_CHECK_NO_THROW(c.validate());
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_preset_is_refused_with_the_names_there_are) {
  for (const std::string& name : model::preset_names())
    check_refused([] { model::resolve_config("qwen3"); }, {"qwen3", name, "config.json"});
}

BOOST_AUTO_TEST_CASE(a_model_is_a_preset_s_name_or_a_folder) {
  BOOST_TEST(model::resolve_config("small").d == 384);
  read({});
  BOOST_TEST(model::resolve_config(folder.path().string()).d == 64);
  check_refused([] { model::resolve_config("/nonexistent/model"); }, {"/nonexistent/model/config.json"});
  check_refused([] { model::resolve_config(std::string(5000, 'm')); }, {"unknown model"});
}

BOOST_AUTO_TEST_CASE(the_golden_model_is_the_tiny_preset) {
  Config golden = model::read_config(fixtures() / "tiny_qwen2");
  const Config tiny = model::preset("tiny");
  BOOST_TEST(golden.name == "tiny_qwen2");
  BOOST_TEST((std::tie(golden.vocab, golden.d, golden.layers, golden.heads, golden.kv_heads, golden.head_dim) ==
              std::tie(tiny.vocab, tiny.d, tiny.layers, tiny.heads, tiny.kv_heads, tiny.head_dim)));
  BOOST_TEST(
      (std::tie(golden.ffn, golden.max_positions, golden.rope_theta, golden.rms_eps, golden.tied, golden.qkv_bias) ==
       std::tie(tiny.ffn, tiny.max_positions, tiny.rope_theta, tiny.rms_eps, tiny.tied, tiny.qkv_bias)));
}

// ---- config.json ----------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(every_field_is_read) {
  const Config c = read({{"head_dim", "32"}});
  BOOST_TEST(c.name == folder.path().filename().string());
  BOOST_TEST(c.vocab == 320);
  BOOST_TEST(c.d == 64);
  BOOST_TEST(c.layers == 2);
  BOOST_TEST(c.heads == 4);
  BOOST_TEST(c.kv_heads == 2);
  BOOST_TEST(c.head_dim == 32);  // given: not hidden_size / heads
  BOOST_TEST(c.ffn == 176);
  BOOST_TEST(c.max_positions == 256);
  BOOST_TEST(c.rms_eps == 1e-5f);
  BOOST_TEST(c.rope_theta == 500000.0);
  BOOST_TEST(c.tied);
  BOOST_TEST(c.qkv_bias);
}

BOOST_AUTO_TEST_CASE(absent_fields_have_hugging_face_s_defaults) {
  const Config c = read({{"num_key_value_heads", ""},
                         {"rms_norm_eps", ""},
                         {"rope_theta", ""},
                         {"hidden_act", ""},
                         {"tie_word_embeddings", "null"}});
  BOOST_TEST(c.kv_heads == 4);
  BOOST_TEST(c.head_dim == 16);
  BOOST_TEST(c.rms_eps == 1e-6f);
  BOOST_TEST(c.rope_theta == 10000.0);
  BOOST_TEST(!c.tied);
}

BOOST_AUTO_TEST_CASE(a_llama_has_no_biases) {
  BOOST_TEST(!read({{"model_type", "\"llama\""}, {"attention_bias", "false"}}).qkv_bias);
  refuses({{"model_type", "\"llama\""}, {"attention_bias", "true"}}, {"bias"});
  refuses({{"model_type", "\"llama\""}, {"mlp_bias", "true"}}, {"bias"});
}

BOOST_AUTO_TEST_CASE(rotary_positions_are_read_from_old_files_and_new) {
  BOOST_TEST(read({{"rope_scaling", "null"}}).rope_theta == 500000.0);
  BOOST_TEST(read({{"rope_scaling", R"({"type":"default"})"}}).rope_theta == 500000.0);
  const Fields newer = {{"rope_theta", ""}, {"rope_parameters", R"({"rope_theta":1000000,"rope_type":"default"})"}};
  BOOST_TEST(read(newer).rope_theta == 1e6);
  refuses({{"rope_scaling", R"({"rope_type":"llama3","factor":8.0})"}}, {"rope_scaling", "default"});
  refuses({{"rope_scaling", R"({"factor":8.0})"}}, {"rope_scaling", "default"});
  refuses({{"rope_parameters", R"({"rope_type":"yarn","rope_theta":1e6})"}}, {"rope_parameters", "default"});
  refuses({{"rope_parameters", R"({"rope_type":"default","rope_theta":"1e6"})"}}, {"rope_parameters", "rope_theta"});
  refuses({{"rope_parameters", "[]"}}, {"rope_parameters", "object"});
}

BOOST_AUTO_TEST_CASE(a_required_field_that_is_absent_is_named) {
  for (const char* name : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                           "max_position_embeddings"}) {
    refuses({{name, ""}}, {"lacks", name});
    refuses({{name, "null"}}, {"lacks", name});
  }
  refuses({{"model_type", ""}}, {"model_type"});
}

BOOST_AUTO_TEST_CASE(a_field_of_the_wrong_type_or_size_is_named) {
  for (const char* name : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                           "num_key_value_heads", "max_position_embeddings", "head_dim"})
    for (const char* value : {"\"64\"", "0", "-4", "1.5", "true", "[]", "{}", "2147483649", "18446744073709551615"})
      refuses({{name, value}}, {name, "integer from 1 to"});
  for (const char* value : {"\"1e6\"", "0", "-1.0", "true"})
    refuses({{"rope_theta", value}}, {"rope_theta", "positive"});
  refuses({{"rms_norm_eps", "0"}}, {"rms_norm_eps"});
  refuses({{"rms_norm_eps", "1e300"}}, {"rms_norm_eps"});
  refuses({{"tie_word_embeddings", "\"true\""}}, {"tie_word_embeddings", "true or false"});
  refuses({{"model_type", "3"}}, {"model_type", "string"});
}

BOOST_AUTO_TEST_CASE(what_would_be_computed_differently_is_refused_by_name) {
  refuses({{"model_type", "\"mixtral\""}}, {"model_type", "mixtral", "qwen2", "llama"});
  refuses({{"model_type", R"("two\nlines")"}}, {R"(two\x0alines)"});
  refuses({{"hidden_act", "\"gelu\""}}, {"hidden_act", "gelu", "silu"});
  refuses({{"hidden_act", R"("ge\nlu")"}}, {R"(ge\x0alu)"});
  refuses({{"use_sliding_window", "true"}}, {"use_sliding_window"});
  refuses({{"quantization_config", "{}"}}, {"quantization_config"});
  // A window that is not used is none.
  BOOST_CHECK_NO_THROW(read({{"use_sliding_window", "false"}, {"sliding_window", "4096"}}));
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_fit_together_are_refused) {
  refuses({{"num_key_value_heads", "3"}}, {"4 heads", "3 kv heads"});
  refuses({{"num_key_value_heads", "8"}}, {"4 heads", "8 kv heads"});
  refuses({{"num_attention_heads", "5"}}, {"hidden_size", "num_attention_heads"});
  refuses({{"hidden_size", "96"}}, {"head_dim 24", "16, 32, 64 and 128"});
}

BOOST_AUTO_TEST_CASE(sizes_that_overflow_are_refused) {
  refuses({{"num_hidden_layers", "2147483648"}}, {"2147483648 layers"});
  refuses({{"num_attention_heads", "2147483648"}, {"hidden_size", "2147483648"}, {"head_dim", "128"}}, {"63 bits"});
  Config c = model::preset("tiny");
  for (std::int64_t Config::*size : {&Config::vocab, &Config::d, &Config::layers, &Config::heads, &Config::kv_heads,
                                     &Config::ffn, &Config::max_positions})
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 62}) {
      Config bad = c;
      bad.*size = value;
      check_refused([&] { bad.validate(); }, {"tiny", std::to_string(value)});
    }
}

BOOST_AUTO_TEST_CASE(what_is_no_json_object_is_refused) {
  const auto says = [&](const std::string& text, std::initializer_list<std::string_view> parts) {
    write(text);
    check_refused([&] { model::read_config(folder.path()); }, parts);
  };
  says("", {"config.json", "not JSON"});
  says("vocab_size: 320", {"config.json", "not JSON"});
  says("{\"vocab_size\": 320", {"config.json", "not JSON"});
  says("{\"vocab_size\": 1e999}", {"config.json", "not JSON"});
  says("[]", {"config.json", "one JSON object"});
  says("3", {"config.json", "one JSON object"});
  std::filesystem::remove(folder.path() / "config.json");
  check_refused([&] { model::read_config(folder.path()); }, {"config.json does not exist"});
  std::filesystem::create_directory(folder.path() / "config.json");
  check_refused([&] { model::read_config(folder.path()); }, {"config.json", "not a regular file"});
}

BOOST_AUTO_TEST_CASE(a_thousand_damaged_files_are_valid_or_refused_in_one_line) {
  read({});
  std::ifstream in(folder.path() / "config.json");
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  std::mt19937 random(1);
  for (int round = 0; round < 1000; round++) {
    std::string text = whole;
    for (std::size_t damages = 1 + random() % 3; damages > 0; damages--) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
          break;
        case 1:
          text.insert(at, std::to_string(random()));
          break;
        default:
          text.erase(at, 1 + random() % 8);
      }
      if (text.empty()) text = whole;
    }
    write(text);
    const auto message = refusal([&] { model::read_config(folder.path()).validate(); });
    if (message) BOOST_REQUIRE_MESSAGE(is_one_line(*message), *message);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace spillway::test
