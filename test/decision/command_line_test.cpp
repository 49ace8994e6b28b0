// The program as a person meets it: every bad input gets one line that says what is wrong, a non-zero exit, and leaves
// no file; out of memory is a row, not an end.

#include <fstream>

#include "test/decision/program.h"
#include "test/device_controls.h"
#include "test/fixture.h"

namespace fs = std::filesystem;
using namespace spillway::test;

namespace {

const char* const kRecord = kHostDevice ? "76_host_memory.json" : "76_real_gpu_memory.json";

std::string bench(const fs::path& results, const std::string& more) {
  return fmt::format("bench --model tiny --warmup 1 --iters 2 --repeats 2 --results {} --run r {}", results.string(),
                     more);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(command_line)

BOOST_AUTO_TEST_CASE(bad_input_is_one_line_and_no_folder) {
  const TemporaryFolder tmp;
  const fs::path results = tmp.path() / "results";
  const auto refused = [&](const std::string& more, const std::string& says) {
    check_refused(fmt::format("bench --results {} {}", results.string(), more), says);
  };
  refused("--model nonesuch", "nonesuch");
  refused("--model tiny --strategies baseline,swap", "swap");
  refused("--model tiny --strategies baseline,baseline", "twice");
  refused("--model tiny --seq 0", "seq 0");
  refused("--model tiny --seq 1", "seq 1");
  refused("--model tiny --seq -5", "seq -5");
  refused("--model tiny --seq 257", "256 positions");
  refused("--model tiny --seq abc", "abc");
  refused("--model tiny --seq 32 --batch 0", "batch 0");
  refused("--model tiny --seq 32 --batch 4000000000000000000", "63 bits");
  refused("--model tiny --seq 32 --batch 100000000", "more tokens");
  refused("--model tiny --seq 32 --dtype int4", "int4");
  refused("--model tiny --seq 32 --iters 2147483647", "iters 2147483647");
  refused("--model tiny --seq 32 --lr nan", "lr nan");
  refused("--model tiny --seq 32 --memory-cap-mb nan", "memory-cap-mb nan");
  refused("--model tiny --seq 32 --iters 0", "iters 0");
  refused("--model tiny --seq 32 --repeats 0", "repeats 0");
  refused("--model tiny --seq 32 --lmhead-chunk -7", "lmhead-chunk -7");
  refused("--model tiny --seq 32 --data /nonexistent/file.txt", "/nonexistent/file.txt");
  refused("--model tiny --seq 32 --run a/b", "a/b");
  check_refused("", "subcommand");
  check_refused("bench --no-such-flag", "no-such-flag");
  check_refused("explain --model tiny --seq 32 --strategy swap", "swap");
  check_refused("train --model tiny --seq 32 --steps 0", "steps 0");
  check_refused("verify /nonexistent golden.safetensors", "/nonexistent");
  BOOST_TEST(!fs::exists(results));
}

BOOST_AUTO_TEST_CASE(what_only_the_host_device_takes_is_checked_too, *boost::unit_test::enable_if<kHostDevice>()) {
  check_refused("bench --model tiny --seq 32 --fault nonsense", "nonsense");
  check_refused("bench --model tiny --seq 32 --device-memory lots", "lots");
  check_refused("bench --model tiny --seq 32 --device-memory 0", "device-memory 0");
  check_refused("bench --model tiny --seq 32 --pool-threads 0", "pool-threads 0");
}

BOOST_AUTO_TEST_CASE(models_and_data_that_are_broken_are_named) {
  const TemporaryFolder tmp;
  const fs::path model = tmp.path() / "model", results = tmp.path() / "results";
  fs::create_directory(model);
  const auto refused = [&](const std::string& more, const std::string& says) {
    check_refused(fmt::format("bench --results {} --seq 32 {}", results.string(), more), says);
  };
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(model / name, std::ios::binary | std::ios::trunc) << text;
  };
  const std::string here = fmt::format("--model {}", model.string());
  refused(here, "config.json");
  write("config.json", "{ not json");
  refused(here, "config.json");
  write("config.json", R"({"model_type": "qwen2", "vocab_size": 320})");
  refused(here, "hidden_size");
  std::string config(std::istreambuf_iterator<char>(
                         *std::make_unique<std::ifstream>(spillway::test::fixtures() / "tiny_qwen2/config.json")),
                     {});
  const auto heads = config.find("\"num_key_value_heads\": 2");
  BOOST_REQUIRE(heads != std::string::npos);
  write("config.json", std::string(config).replace(heads, 24, "\"num_key_value_heads\": 3"));
  refused(here, "3");
  write("config.json", config);
  refused(here, "safetensors");
  write("model.safetensors", "short");
  refused(here, "model.safetensors");
  std::ifstream weights(spillway::test::fixtures() / "tiny_qwen2/model.safetensors", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(weights), {});
  write("model.safetensors", bytes.substr(0, bytes.size() - 1));
  refused(here, "model.safetensors");

  std::ofstream(tmp.path() / "empty.txt");
  refused(fmt::format("--model small --data {}", (tmp.path() / "empty.txt").string()), "empty.txt");
  std::ofstream(tmp.path() / "ids.u16", std::ios::binary) << std::string(400, '\xff');
  refused(fmt::format("--model tiny --data {}", (tmp.path() / "ids.u16").string()), "65535");
  std::ofstream(tmp.path() / "file") << "x";
  check_refused(fmt::format("bench --model tiny --seq 32 --results {}", (tmp.path() / "file").string()), "file");
  BOOST_TEST(!fs::exists(results));
}

BOOST_AUTO_TEST_CASE(bench_writes_a_record_with_the_protocols_fields) {
  const TemporaryFolder tmp;
  const Result r = spillway_run(bench(tmp.path(), "--seq 32"));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  const auto record = read(tmp.path() / "r" / kRecord);
  BOOST_TEST(record["stage"] == "activation_checkpoint_offload_benchmark");
  BOOST_TEST(record["evidence_level"] == (kHostDevice ? "host" : "single_gpu"));
  BOOST_TEST(record["losses_identical"] == true);
  BOOST_TEST(record["config"]["torch"].is_null());
  BOOST_TEST(record["config"]["seq_len"] == 32);
  BOOST_REQUIRE(record["candidates"].size() == 4U);
  for (const auto& c : record["candidates"]) {
    BOOST_TEST(c["status"] == "ok");
    BOOST_TEST(c["samples"].size() == 4U);
    std::int64_t sum = 0;
    for (const auto& [category, bytes] : c["at_peak"].items()) sum += bytes.get<std::int64_t>();
    BOOST_TEST(sum == c["peak_memory_bytes"].get<std::int64_t>());
    BOOST_TEST(c["peak_memory_mb"].get<double>() == static_cast<double>(sum) / 1048576.0);
  }
  BOOST_TEST(record["candidates"][0]["cost"]["offload_bytes"].is_null());
  BOOST_TEST(record["candidates"][1]["cost"]["recompute_flops"].get<std::int64_t>() > 0);
  BOOST_TEST(record["candidates"][2]["cost"]["offload_bytes"].get<std::int64_t>() > 0);
  BOOST_TEST(record["candidates"][2]["cost"]["offload_bytes"] == record["candidates"][2]["cost"]["prefetch_bytes"]);

  const Result again = spillway_run(bench(tmp.path(), "--seq 32"));
  BOOST_TEST(again.status == 1);
  BOOST_TEST(again.err.find(kRecord) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(every_strategy_and_repeat_gets_the_same_tokens_of_a_file) {
  const TemporaryFolder tmp;
  std::ofstream text(tmp.path() / "text.txt");
  for (int i = 0; i < 300; ++i) text << "line " << i * i << " of a text that does not repeat\n";
  text.close();
  const Result r =
      spillway_run(bench(tmp.path(), fmt::format("--seq 32 --data {}", (tmp.path() / "text.txt").string())));
  BOOST_TEST_CONTEXT(r.out << r.err) {
    BOOST_TEST(r.status == 0);
    BOOST_TEST(r.out.find("bit-identical across repeats and strategies: yes") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_strategy_that_runs_out_of_memory_is_a_row_and_the_others_go_on,
                     *boost::unit_test::enable_if<kHostDevice>()) {
  const TemporaryFolder tmp;
  const Result roomy = spillway_run(bench(tmp.path() / "roomy", "--batch 32 --seq 256"));
  BOOST_REQUIRE(roomy.status == 0);
  const auto all = read(tmp.path() / "roomy" / "r" / kRecord)["candidates"];
  // Too little for baseline, enough for checkpoint.
  const auto bytes = all[0]["peak_memory_bytes"].get<std::int64_t>() - 1;
  BOOST_REQUIRE(all[1]["peak_reserved_bytes"].get<std::int64_t>() < bytes);
  const Result r =
      spillway_run(bench(tmp.path() / "tight", fmt::format("--batch 32 --seq 256 --device-memory {}", bytes)));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  const auto record = read(tmp.path() / "tight" / "r" / kRecord);
  BOOST_REQUIRE(record["candidates"][0]["status"] == "oom");
  BOOST_TEST(record["candidates"][0]["error"].get<std::string>().find("reserved") != std::string::npos);
  BOOST_TEST(record["candidates"][1]["status"] == "ok");
  BOOST_TEST(record["summary"]["oom_count"].get<int>() >= 1);
  BOOST_TEST(record["quality_floor"]["max_val_loss"].is_null());
}

BOOST_AUTO_TEST_CASE(memory_that_runs_out_elsewhere_is_a_row_too, *boost::unit_test::enable_if<kHostDevice>()) {
  const TemporaryFolder tmp;
  // The first host arena: of the first offloading strategy that runs.
  const Result r = spillway_run(bench(tmp.path(), "--seq 32 --fault cudaMallocHost:1"));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  const auto record = read(tmp.path() / "r" / kRecord);
  BOOST_TEST(record["summary"]["oom_count"] == 1);
  BOOST_TEST(record["summary"]["measured_count"] == 3);
}

BOOST_AUTO_TEST_CASE(a_record_has_every_field_of_the_protocol) {
  const TemporaryFolder tmp;
  BOOST_REQUIRE(spillway_run(bench(tmp.path(), "--seq 32")).status == 0);
  const auto record = read(tmp.path() / "r" / kRecord);
  const auto has = [](const nlohmann::json& node, std::initializer_list<const char*> keys) {
    for (const char* key : keys) BOOST_TEST_CONTEXT(key) BOOST_TEST(node.contains(key));
  };
  has(record, {"task", "stage", "source_baseline", "config", "budget", "quality_floor", "candidates", "summary",
               "decision", "evidence_level"});
  has(record["config"], {"model_id", "batch_size", "seq_len", "warmup", "iters", "repeats", "amp_dtype", "optimizer",
                         "torch", "torch_cuda", "driver", "device", "seed", "git_commit", "command", "workload"});
  has(record["budget"], {"memory_cap_mb", "min_samples_per_s"});
  has(record["quality_floor"], {"max_val_loss"});
  has(record["summary"],
      {"oom_count", "invalid_count", "measured_count", "candidate_count", "quality_failed_count", "feasible_names",
       "best_candidate", "baseline_peak_memory_mb", "best_peak_memory_mb", "memory_saving_mb", "throughput_ratio"});
  has(record["decision"], {"decision", "reason", "next_action"});
  for (const auto& c : record["candidates"]) {
    has(c, {"name", "status", "step_time_ms", "samples_per_s", "loss", "eval_loss", "peak_memory_mb",
            "peak_reserved_mb", "cost", "samples"});
    has(c["cost"], {"recompute_ms", "recompute_flops", "offload_bytes", "prefetch_bytes", "transfer_ms",
                    "exposed_transfer_ms", "pinned_host_bytes", "allocator_retries"});
  }
  check_bytes_beside_mebibytes(record);
}

BOOST_AUTO_TEST_CASE(the_default_seq_is_no_longer_than_the_model) {
  const TemporaryFolder tmp;
  const Result r = spillway_run(
      fmt::format("bench --model tiny --warmup 0 --iters 1 --repeats 1 --results {} --run r", tmp.path().string()));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  BOOST_TEST(read(tmp.path() / "r" / kRecord)["config"]["seq_len"] == 256);
  BOOST_TEST(spillway_run("explain --model tiny").status == 0);
  check_refused("explain --model tiny --seq 768", "256 positions");
}

BOOST_AUTO_TEST_CASE(a_source_baseline_is_named_from_the_runs_folder) {
  const TemporaryFolder tmp;
  BOOST_REQUIRE(
      spillway_run(fmt::format("baseline --model tiny --seq 32 --iters 1 --tuned batch=2 --results {} --run a",
                               tmp.path().string()))
          .status == 0);
  const std::string file =
      (tmp.path() / "a" / (kHostDevice ? "73_host_training.json" : "73_real_gpu_training.json")).string();
  BOOST_REQUIRE(spillway_run(bench(tmp.path(), "--seq 32 --source-baseline " + file)).status == 0);
  const auto source = read(tmp.path() / "r" / kRecord)["source_baseline"].get<std::string>();
  BOOST_TEST(fs::exists(tmp.path() / "r" / source));
  BOOST_TEST(source.starts_with("../a/"));
  const std::string record = (tmp.path() / "r" / kRecord).string();
  check_refused(bench(tmp.path() / "x", "--seq 32 --source-baseline " + record), "not a 73 record");
}

BOOST_AUTO_TEST_CASE(explain_prints_plan_schedule_and_verdict) {
  for (const char* strategy : {"baseline", "checkpoint", "offload", "hybrid", "offload-pageable"}) {
    const Result r = spillway_run(fmt::format("explain --model small --seq 128 --strategy {}", strategy));
    BOOST_TEST_CONTEXT(r.out << r.err) {
      BOOST_TEST(r.status == 0);
      BOOST_TEST(r.out.find("no race") != std::string::npos);
      BOOST_TEST(r.out.find("gate") != std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(training_on_text_lowers_the_loss) {
  const TemporaryFolder tmp;
  std::ofstream text(tmp.path() / "text.txt");
  for (int i = 0; i < 400; ++i) text << "the quick brown fox jumps over the lazy dog. ";
  text.close();
  const Result r =
      spillway_run(fmt::format("train --model tiny --seq 64 --steps 40 --lr 3e-3 --strategy hybrid --data {}",
                               (tmp.path() / "text.txt").string()));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  const auto number_after = [&](const char* words) {
    const auto at = r.out.find(words);
    BOOST_REQUIRE(at != std::string::npos);
    return std::stod(r.out.substr(r.out.find(": ", at) + 2));
  };
  BOOST_TEST(number_after("evaluation loss after") < 0.7 * number_after("evaluation loss before"));
}

BOOST_AUTO_TEST_SUITE_END()
