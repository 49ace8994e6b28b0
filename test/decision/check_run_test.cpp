// The four questions: a run whose records are whole, steady and in agreement with each other gets three yeses (74 is
// another experiment's), and every way in which one of them can be missing, unsteady or contradicted is a no.
#include "decision/check_run.h"

#include "decision/budget_decision.h"
#include "decision/json_file.h"
#include "decision/normalize.h"
#include "decision/rules_json.h"
#include "decision/source_record.h"
#include "decision/training_baseline.h"
#include "test/decision/program.h"

using namespace spillway::decision;
using namespace spillway::test;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

// Two repeats of two steps, as steady as can be.
Json measured(double ms, double peak_mb, const char* peak_name) {
  Json samples = Json::array();
  for (const int repeat : {1, 2})
    for (const int step : {0, 1})
      samples.push_back({{"repeat", repeat}, {"step_time_ms", ms + step}, {"loss", 9.0 - step}});
  return {{"status", "ok"},
          {"step_time_ms", ms + 0.5},
          {"samples_per_s", 1000 / (ms + 0.5)},
          {"loss", 8.0},
          {"eval_loss", 9.5},
          {peak_name, peak_mb},
          {"peak_reserved_mb", 400.0},
          {"peaks_agree", true},
          {"losses_agree", true},
          {"cost", Json::object()},
          {"samples", samples}};
}

// A run of the protocol, made by hand. Its records can be changed before they are written.
struct HandMadeRun {
  Json r73, r76;
  TemporaryFolder folder;

  HandMadeRun() {
    const Json config = {{"model_id", "m"}, {"device", "d"},          {"seed", 42},       {"repeats", 2}, {"iters", 2},
                         {"batch_size", 1}, {"amp_dtype", "float32"}, {"varied", "dtype"}};
    r73 = {{"stage", "measurement_baseline"},
           {"config", config},
           {"baseline", measured(100, 300, "peak_mem_mb")},
           {"tuned", measured(80, 290, "peak_mem_mb")}};
    r76 = {{"stage", "activation_checkpoint_offload_benchmark"},
           {"source_baseline", "73_host_training.json"},
           {"config", config},
           {"budget", {{"memory_cap_mb", 1000.0}, {"min_samples_per_s", 1.0}}},
           {"quality_floor", {{"max_val_loss", 9.69}}},
           {"candidates", Json::array()}};
    for (const auto& [name, ms, peak] : {std::tuple("baseline", 100., 300.), std::tuple("checkpoint", 120., 220.)}) {
      Json c = {{"name", name}};
      c.update(measured(ms, peak, "peak_memory_mb"));
      r76["candidates"].push_back(c);
    }
    conclude();
  }
  // Summaries and decisions that follow from the figures.
  void conclude() {
    const auto figures = [&](const char* arm) {
      return ArmFigures{r73[arm]["step_time_ms"], r73[arm]["peak_mem_mb"], r73[arm]["eval_loss"]};
    };
    const BaselineSummary s = compare(figures("baseline"), figures("tuned"));
    const Decision d = decide_baseline(s, figures("baseline"), figures("tuned"));
    r73["summary"] = baseline_summary_json(s);
    r73["decision"] = {{"decision", d.decision}, {"reason", d.reason}};
    r73["loss_delta_tuned_minus_baseline"] = 0.0;
    const Summary s76 = summarize(record_candidates(r76, "76"), record_budget(r76));
    r76["summary"] = summary_json(s76);
    r76["decision"] = decision_json(decide(s76, record_thresholds(r76), Wording::benchmark_76));
  }
  void put(const std::string& name, const Json& contents) const {
    std::ofstream(folder.path() / name, std::ios::trunc) << contents.dump();
  }
  void with_sidecar(const std::string& name, const Json& raw) const {
    put(name, raw);
    put(sidecar_name(name), normalize(raw, name));
  }
  void write() const {
    with_sidecar("73_host_training.json", r73);
    with_sidecar("76_host_memory.json", r76);
    const std::string source = (folder.path() / "76_host_memory.json").string();
    with_sidecar("75_memory_budget_decision.json",
                 budget_record(decide_budget(r76, "76", {}), r76, file_identity(source), "test"));
  }
  RunCheck check() const { return check_run(folder.path()); }
};

// "yyyn": which of the four hold.
std::string pattern(const RunCheck& check) {
  std::string text;
  for (const Answer& a : check.answers) text += a.yes ? 'y' : 'n';
  return text;
}

// Changes a run, and expects `question` (0 .. 2) to be a no whose reason has `says`.
template <class Change>
void expect_no(std::size_t question, const std::string& says, Change change) {
  HandMadeRun run;
  change(run);
  const RunCheck check = run.check();
  BOOST_TEST_CONTEXT(says << " | " << check.answers[question].reason) {
    BOOST_TEST(!check.answers[question].yes);
    BOOST_TEST(check.answers[question].reason.find(says) != std::string::npos);
  }
}

// Of a record before it is written.
template <class Change>
void expect_no_when(std::size_t question, const std::string& says, Change change) {
  expect_no(question, says, [&](HandMadeRun& run) {
    change(run);
    run.write();
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(checking_a_run)

BOOST_AUTO_TEST_CASE(a_sound_run_gets_three_yeses_and_74_is_missing) {
  HandMadeRun run;
  run.write();
  const RunCheck check = run.check();
  for (const Answer& a : check.answers) BOOST_TEST_MESSAGE(a.question << " " << a.reason);
  BOOST_TEST(pattern(check) == "yyyn");
  BOOST_TEST(check.answers[3].reason.find("74_profiling_optimization.json") != std::string::npos);
  BOOST_TEST(check.files.size() == 6U);
  BOOST_TEST(!check.all_hold());
}

BOOST_AUTO_TEST_CASE(a_missing_or_unreadable_record_is_a_no) {
  const char* const records[] = {"73_host_training", "76_host_memory", "75_memory_budget_decision"};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string raw = std::string(records[i]) + ".json", sidecar = std::string(records[i]) + "_v1.json";
    const auto after = [&](auto change) {
      return [&, change](HandMadeRun& run) {
        run.write();
        change(run.folder.path());
      };
    };
    expect_no(i, "missing", after([&](const fs::path& folder) { fs::remove(folder / raw); }));
    expect_no(i, sidecar, after([&](const fs::path& folder) { fs::remove(folder / sidecar); }));
    expect_no(i, i == 2 ? "75" : raw,
              after([&](const fs::path& folder) { std::ofstream(folder / raw, std::ios::trunc) << "{"; }));
    expect_no(i, "", after([&](const fs::path& folder) { std::ofstream(folder / raw, std::ios::trunc) << "[1]"; }));
    expect_no(i, sidecar, after([&](const fs::path& folder) {
                Json s = read_json(folder / sidecar);
                s["candidates"][0]["metrics"]["peak_memory_mb"] = 1.5;
                std::ofstream(folder / sidecar, std::ios::trunc) << s.dump();
              }));
  }
}

BOOST_AUTO_TEST_CASE(an_unsteady_record_is_a_no) {
  for (const std::size_t i : {0, 1}) {
    const auto first = [i](HandMadeRun& run) -> Json& {
      return i == 0 ? run.r73["baseline"] : run.r76["candidates"][0];
    };
    expect_no_when(i, "losses of its repeats differ",
                   [&](HandMadeRun& run) { first(run)["samples"][2]["loss"] = 9.0001; });
    expect_no_when(i, "peaks of its repeats differ", [&](HandMadeRun& run) { first(run)["peaks_agree"] = false; });
    expect_no_when(i, "spread by", [&](HandMadeRun& run) {
      first(run)["samples"][0]["step_time_ms"] = 70.0;
      first(run)["samples"][1]["step_time_ms"] = 130.0;
    });
    expect_no_when(i, "samples where 2 repeats of 2 steps", [&](HandMadeRun& run) { first(run)["samples"].erase(3); });
    expect_no_when(i, "median of its samples", [&](HandMadeRun& run) {
      first(run)["step_time_ms"] = 90.0;
      run.conclude();
    });
    expect_no_when(i, "samples", [&](HandMadeRun& run) { first(run).erase("samples"); });
    expect_no_when(i, "single repeat",
                   [&](HandMadeRun& run) { (i == 0 ? run.r73 : run.r76)["config"]["repeats"] = 1; });
    expect_no_when(i, "not a finite number", [&](HandMadeRun& run) { first(run)["samples"][0]["loss"] = nullptr; });
  }
}

BOOST_AUTO_TEST_CASE(a_record_that_contradicts_itself_is_a_no) {
  expect_no_when(0, "summary.step_time_delta_ms",
                 [](HandMadeRun& run) { run.r73["summary"]["step_time_delta_ms"] = 21.0; });
  expect_no_when(0, "decision.decision", [](HandMadeRun& run) { run.r73["decision"]["decision"] = "accept"; });
  expect_no_when(0, "varied", [](HandMadeRun& run) { run.r73["config"].erase("varied"); });
  expect_no_when(0, "out of memory", [](HandMadeRun& run) {
    run.r73["tuned"] = {{"status", "oom"}, {"error", "out of memory"}};
  });
  expect_no_when(1, "summary.memory_saving_mb",
                 [](HandMadeRun& run) { run.r76["summary"]["memory_saving_mb"] = 600.0; });
  expect_no_when(1, "decision.decision", [](HandMadeRun& run) { run.r76["decision"]["decision"] = "accept"; });
  expect_no_when(1, "trained something else", [](HandMadeRun& run) {
    for (auto& s : run.r76["candidates"][1]["samples"]) s["loss"] = 7.0;
    run.r76["candidates"][1]["loss"] = 7.0;
  });
  expect_no_when(1, "trained something else", [](HandMadeRun& run) {
    run.r76["candidates"][1]["eval_loss"] = 9.4;
    run.conclude();
  });
  expect_no_when(1, "cost", [](HandMadeRun& run) { run.r76["candidates"][1].erase("cost"); });
  expect_no_when(1, "without a reason", [](HandMadeRun& run) {
    run.r76["candidates"][1] = {{"name", "checkpoint"}, {"status", "oom"}};
  });
  expect_no_when(1, "only the baseline", [](HandMadeRun& run) { run.r76["candidates"].erase(1); });
  expect_no_when(1, "baseline was not measured", [](HandMadeRun& run) { run.r76["candidates"].erase(0); });
}

BOOST_AUTO_TEST_CASE(a_figure_that_its_samples_do_not_give_is_a_no) {
  for (const std::size_t i : {0, 1}) {
    const auto first = [i](HandMadeRun& run) -> Json& {
      return i == 0 ? run.r73["baseline"] : run.r76["candidates"][0];
    };
    expect_no_when(i, "samples_per_s", [&](HandMadeRun& run) {
      first(run)["samples_per_s"] = 99.0;
      run.conclude();
    });
    expect_no_when(i, "loss", [&](HandMadeRun& run) { first(run)["loss"] = 7.5; });
    expect_no_when(i, "losses of its repeats differ", [&](HandMadeRun& run) { first(run)["losses_agree"] = false; });
    expect_no_when(i, "the bytes beside it", [&](HandMadeRun& run) { first(run)["peak_reserved_bytes"] = 1; });
    expect_no_when(i, "a step that took", [&](HandMadeRun& run) { first(run)["samples"][0]["step_time_ms"] = 0.0; });
    for (const Json& hostile : {Json(0), Json(-5), Json(1e300), Json("2"), Json(nullptr)})
      for (const char* key : {"iters", "repeats"})
        expect_no_when(i, "", [&](HandMadeRun& run) { (i == 0 ? run.r73 : run.r76)["config"][key] = hostile; });
  }
  expect_no_when(0, "loss_delta", [](HandMadeRun& run) { run.r73["loss_delta_tuned_minus_baseline"] = 0.5; });
  expect_no_when(1, "amp_dtype", [](HandMadeRun& run) { run.r73["baseline"]["dtype"] = "bfloat16"; });
}

BOOST_AUTO_TEST_CASE(a_record_that_contradicts_its_source_is_a_no) {
  expect_no_when(1, "source_baseline elsewhere.json is missing",
                 [](HandMadeRun& run) { run.r76["source_baseline"] = "elsewhere.json"; });
  expect_no_when(1, "config.model_id", [](HandMadeRun& run) { run.r76["config"]["model_id"] = "another"; });
  expect_no(2, "another file than 76_host_memory.json", [](HandMadeRun& run) {
    run.write();
    run.r76["candidates"][1]["note"] = "edited later";
    run.with_sidecar("76_host_memory.json", run.r76);
  });
  const auto change_75 = [](auto change) {
    return [change](HandMadeRun& run) {
      run.write();
      Json r = read_json(run.folder.path() / "75_memory_budget_decision.json");
      change(r);
      run.with_sidecar("75_memory_budget_decision.json", r);
    };
  };
  expect_no(2, "grid", change_75([](Json& r) { r["grid"][3]["decision"] = "accept"; }));
  expect_no(2, "grid", change_75([](Json& r) { r["grid"].erase(5); }));
  expect_no(2, "sensitivity", change_75([](Json& r) { r["sensitivity"]["conclusion"] = "sensitive"; }));
  expect_no(2, "candidates", change_75([](Json& r) { r["candidates"][0]["loss"] = 1.0; }));
  expect_no(2, "decision", change_75([](Json& r) { r["decision"]["decision"] = "accept"; }));
}

BOOST_AUTO_TEST_CASE(a_decision_that_changes_nearby_is_a_no) {
  HandMadeRun run;
  run.r76["budget"]["memory_cap_mb"] = 225.0;  // the next cap of the grid below it lets nothing in
  run.r76["candidates"][0]["peak_memory_mb"] = 228.0;
  run.r76["candidates"][1]["peak_memory_mb"] = 224.0;
  run.conclude();
  run.write();
  const RunCheck check = run.check();
  BOOST_TEST(pattern(check) == "yynn");
  BOOST_TEST(check.answers[2].reason.find("sensitive") != std::string::npos);
}

// Records that this program wrote once are still what it would conclude today.
BOOST_AUTO_TEST_CASE(the_kept_reference_run_holds) {
  const RunCheck check = check_run("results/kept/host_small_768");
  for (const Answer& a : check.answers) BOOST_TEST_MESSAGE(a.question << " " << a.reason);
  BOOST_TEST(pattern(check) == "yyyn");
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_none_is_refused) {
  check_refused("check /nonexistent", "/nonexistent");
}

BOOST_AUTO_TEST_SUITE_END()
