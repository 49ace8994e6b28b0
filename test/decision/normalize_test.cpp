// Sidecars: the published runs field for field as PROTOCOL.md maps them, the input untouched, and malformed records
// that end in a line and never in half a file.
#include "decision/normalize.h"

#include <random>

#include "decision/budget_decision.h"
#include "decision/json_file.h"
#include "runtime/error.h"
#include "test/decision/program.h"

using namespace spillway::decision;
using namespace spillway::test;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

std::string slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string published(const char* name) {
  return (fixtures() / "published" / name).string();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sidecars)

BOOST_AUTO_TEST_CASE(the_published_76_run_maps_field_for_field) {
  const std::string file = published("76_real_gpu_memory.json");
  const Json raw = read_json(file), s = normalize(raw, file);
  std::vector<std::string> keys;
  for (const auto& [key, value] : s.items()) keys.push_back(key);
  BOOST_TEST(
      (keys == std::vector<std::string>{"schema_version", "project", "stage", "config", "budget", "quality_floor",
                                        "candidates", "summary", "decision", "legacy_source", "source_baseline"}));
  BOOST_TEST(s["schema_version"] == "training-memory-benchmark/v1");
  BOOST_TEST(s["project"] == "76");
  BOOST_TEST(s["stage"] == "activation_checkpoint_offload_benchmark");
  BOOST_TEST(s["config"].dump() ==
             R"({"model":"Qwen/Qwen2.5-0.5B","device":"laptop GPU, 12 GB","torch":"2.x","cuda":"12.x","dtype":"fp32",)"
             R"("batch_size":1,"seq_len":768,"warmup":2,"iters":5,"workload":"pressure"})");
  BOOST_TEST(s["budget"].dump() == R"({"memory_cap_mb":11200,"min_samples_per_s":1.0})");
  BOOST_TEST(s["quality_floor"].dump() == R"({"max_val_loss":12.603633})");
  BOOST_TEST(s["legacy_source"] == file);
  BOOST_TEST(s["source_baseline"] == "73_real_gpu_training.json");
  BOOST_TEST(s["summary"] == raw["summary"]);
  BOOST_TEST(s["decision"] == raw["decision"]);
  BOOST_REQUIRE(s["candidates"].size() == 4U);
  // name, saving, ratio: by hand from the protocol's table
  const std::tuple<const char*, double, double> expected[] = {
      {"baseline", 0, 1}, {"checkpoint", 331.98, 0.804483}, {"offload", 334.41, 0.251788}, {"hybrid", 328.1, 0.622318}};
  for (std::size_t i = 0; i < 4; ++i) {
    const Json &c = s["candidates"][i], &r = raw["candidates"][i];
    const auto& [name, saving, ratio] = expected[i];
    BOOST_TEST(c["name"] == name);
    BOOST_TEST(c["status"] == "ok");
    BOOST_TEST(c["metrics"]["step_time_ms"] == r["step_time_ms"]);
    BOOST_TEST(c["metrics"]["samples_per_s"] == r["samples_per_s"]);
    BOOST_TEST(c["metrics"]["peak_memory_mb"] == r["peak_memory_mb"]);
    BOOST_TEST(c["metrics"]["peak_reserved_mb"] == r["peak_reserved_mb"]);
    BOOST_TEST(c["metrics"]["memory_saving_mb"].get<double>() == saving);
    BOOST_TEST(c["metrics"]["throughput_ratio"].get<double>() == ratio);
    BOOST_TEST(c["metrics"]["oom"].is_null());
    BOOST_TEST(c["quality"]["loss"] == r["loss"]);
    BOOST_TEST(c["quality"]["eval_loss"] == r["eval_loss"]);
    BOOST_TEST(c["quality"]["val_loss"] == r["eval_loss"]);
    BOOST_TEST(c["quality"]["quality_status"].is_null());
    BOOST_TEST(c["legacy_fields"].dump() == r.dump());
    BOOST_TEST(c.size() == 5U);
  }
}

BOOST_AUTO_TEST_CASE(the_published_73_runs_arms_become_two_candidates) {
  const std::string file = published("73_real_gpu_training.json");
  const Json raw = read_json(file), s = normalize(raw, file);
  BOOST_TEST(s["project"] == "73");
  BOOST_TEST(s["budget"] == Json::object());
  BOOST_TEST(s["quality_floor"] == Json::object());
  BOOST_TEST(s["config"]["workload"].is_null());
  BOOST_TEST(!s.contains("source_baseline"));
  BOOST_REQUIRE(s["candidates"].size() == 2U);
  BOOST_TEST(s["candidates"][0]["name"] == "baseline");
  BOOST_TEST(s["candidates"][1]["name"] == "tuned");
  BOOST_TEST(s["candidates"][1]["metrics"]["peak_memory_mb"] == 9466.15);  // from peak_mem_mb
  BOOST_TEST(s["candidates"][1]["metrics"]["memory_saving_mb"] == 7.97);
  BOOST_TEST(s["candidates"][1]["metrics"]["throughput_ratio"].is_null());
  BOOST_TEST(s["candidates"][1]["legacy_fields"] == raw["tuned"]);
}

BOOST_AUTO_TEST_CASE(fallbacks_of_every_field) {
  const Json raw = Json::parse(R"({
    "config": {"model": "m", "cuda": "11", "dtype": "fp16"},
    "candidates": [
      {"peak_mem_mb": 10, "samples_per_s": 0, "name": "baseline"},
      {"status": "oom", "oom": false},
      {"oom": true, "peak_memory_mb": 3, "val_loss": 2, "samples_per_s": 5, "quality_status": "pass"},
      {"name": "x", "peak_memory_mb": "much", "eval_loss": 1, "val_loss": 7}]})");
  const Json s = normalize(raw, "a/b/90_old.tool.json");
  BOOST_TEST(s["project"] == "90");
  BOOST_TEST(s["stage"].is_null());
  BOOST_TEST(s["config"]["model"] == "m");
  BOOST_TEST(s["config"]["cuda"] == "11");
  BOOST_TEST(s["config"]["dtype"] == "fp16");
  BOOST_TEST(s["summary"] == Json::object());
  BOOST_TEST(s["decision"].dump() == R"({"decision":"not_evaluated"})");
  const Json& c = s["candidates"];
  BOOST_TEST(c[0]["metrics"]["peak_memory_mb"] == 10);
  BOOST_TEST(c[1]["name"] == "strategy_1");
  BOOST_TEST(c[1]["metrics"]["oom"] == true);  // the status says so
  BOOST_TEST(c[1]["metrics"]["memory_saving_mb"].is_null());
  BOOST_TEST(c[2]["name"] == "strategy_2");
  BOOST_TEST(c[2]["status"] == "ok");
  BOOST_TEST(c[2]["metrics"]["oom"] == true);
  BOOST_TEST(c[2]["metrics"]["memory_saving_mb"] == 7.0);
  BOOST_TEST(c[2]["metrics"]["throughput_ratio"].is_null());  // the baseline's is 0
  BOOST_TEST(c[2]["quality"]["val_loss"] == 2);
  BOOST_TEST(c[2]["quality"]["eval_loss"].is_null());
  BOOST_TEST(c[2]["quality"]["quality_status"] == "pass");
  BOOST_TEST(c[3]["metrics"]["peak_memory_mb"] == "much");  // never changed
  BOOST_TEST(c[3]["metrics"]["memory_saving_mb"].is_null());
  BOOST_TEST(c[3]["quality"]["val_loss"] == 7);
}

BOOST_AUTO_TEST_CASE(numbers_come_through_as_the_same_numbers) {
  const std::string text =
      R"({"candidates":[{"a":1,"b":1.0,"c":-0.0,"d":18446744073709551615,"e":-9223372036854775808,"f":5e-324,)"
      R"("g":1.7976931348623157e308,"h":0.1,"i":11.477463}]})";
  const Json raw = parse_json(text, "text"), fields = normalize(raw, "x.json")["candidates"][0]["legacy_fields"];
  BOOST_TEST(fields == raw["candidates"][0]);
  BOOST_TEST(parse_json(fields.dump(), "again") == fields);
  BOOST_TEST(fields["a"].is_number_integer());
  BOOST_TEST(fields["b"].is_number_float());
  BOOST_TEST(fields["d"].get<std::uint64_t>() == 18446744073709551615u);
  BOOST_TEST(fields["f"].get<double>() == 5e-324);
}

BOOST_AUTO_TEST_CASE(normalize_leaves_the_input_alone_and_refuses_to_overwrite) {
  const TemporaryFolder tmp;
  const fs::path input = tmp.path() / "76_real_gpu_memory.json", out = tmp.path() / "out";
  fs::copy_file(published("76_real_gpu_memory.json"), input);
  fs::create_directory(out);
  const auto before = fs::last_write_time(input);
  const std::string bytes = slurp(input),
                    command = fmt::format("normalize {} --output-dir {}", input.string(), out.string());
  BOOST_REQUIRE(spillway_run(command).status == 0);
  BOOST_TEST(slurp(input) == bytes);
  BOOST_TEST((fs::last_write_time(input) == before));
  const std::string sidecar = slurp(out / "76_real_gpu_memory_v1.json");
  BOOST_TEST(Json::parse(sidecar) == normalize(read_json(input), input.string()));
  const Result again = spillway_run(command);
  BOOST_TEST(again.status == 0);  // the same sidecar is there
  BOOST_TEST(again.out.find("already") != std::string::npos);
  fs::remove(out / "76_real_gpu_memory_v1.json");
  std::ofstream(out / "76_real_gpu_memory_v1.json") << "{\"legacy_source\": 1}";
  check_refused(command, "76_real_gpu_memory_v1.json exists");
  BOOST_TEST(slurp(out / "76_real_gpu_memory_v1.json") == "{\"legacy_source\": 1}");
}

BOOST_AUTO_TEST_CASE(a_sidecar_is_not_made_of_a_sidecar) {
  const Json sidecar = normalize(read_json(published("76_real_gpu_memory.json")), "76_x.json");
  BOOST_CHECK_THROW(normalize(sidecar, "76_x_v1.json"), spillway::Error);
}

BOOST_AUTO_TEST_CASE(one_bad_file_among_several_does_not_stop_the_others) {
  const TemporaryFolder tmp;
  std::ofstream(tmp.path() / "bad.json") << "[";
  const Result r =
      spillway_run(fmt::format("normalize {} {} /nonexistent.json --output-dir {}", (tmp.path() / "bad.json").string(),
                               published("73_real_gpu_training.json"), tmp.path().string()));
  BOOST_TEST(r.status == 1);
  BOOST_TEST(std::count(r.err.begin(), r.err.end(), '\n') == 2);
  BOOST_TEST(fs::exists(tmp.path() / "73_real_gpu_training_v1.json"));
  BOOST_TEST(!fs::exists(tmp.path() / "bad_v1.json"));
}

BOOST_AUTO_TEST_CASE(malformed_records_end_in_a_line_of_ours) {
  std::mt19937_64 random(76);
  const std::string good[] = {slurp(published("76_real_gpu_memory.json")),
                              slurp(published("73_real_gpu_training.json"))};
  const std::string pieces[] = {"null", "{}",   "[]",          "-1",   "1e999", "\"\"",  "true",
                                "NaN",  "[[[[", "\"\\ud800\"", "\xff", ",,",    "1e-400"};
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = good[random() % 2];
    for (std::uint64_t n = random() % 4 + 1; n > 0 && !text.empty(); --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.resize(at);
          break;
        case 2:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        default: {  // a value of another type
          const auto colon = text.find(": ", at);
          if (colon == std::string::npos) break;
          const auto end = text.find_first_of(",}\n", colon);
          text.replace(colon + 2, end == std::string::npos ? std::string::npos : end - colon - 2,
                       pieces[random() % std::size(pieces)]);
        }
      }
    }
    try {
      const Json raw = parse_json(text, "fuzz");
      const Json s = normalize(raw, "76_fuzz.json");
      BOOST_REQUIRE(s.contains("candidates"));
      BOOST_REQUIRE(!s.dump(2, ' ', false, Json::error_handler_t::replace).empty());
      decide_budget(raw, "fuzz", {});
    } catch (const spillway::Error& e) {
      ++refused;
      BOOST_REQUIRE(std::string(e.what()).find('\n') == std::string::npos);
    }
  }
  BOOST_TEST(refused > 1000);
  BOOST_TEST(refused < 4000);
  BOOST_CHECK_THROW(parse_json(std::string(100000, '['), "deep"), spillway::Error);
  BOOST_CHECK_THROW(parse_json("", "empty"), spillway::Error);
}

BOOST_AUTO_TEST_SUITE_END()
