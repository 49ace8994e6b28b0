// The four questions: a run whose records are whole, steady and in agreement with each other gets four yeses, and every
// way in which one of them can be missing, unsteady or contradicted is a no.
#include "decision/check_run.h"

#include "decision/budget_decision.h"
#include "decision/json_file.h"
#include "decision/normalize.h"
#include "decision/profiling_closeout.h"
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
  Json r73, r76, r74;
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
    r74 = {{"schema_version", "profiling-optimization/v1"},
           {"config", {{"repeats", 2}, {"iters", 2}, {"batch_size", 1}, {"tuned", "checkpoint"}}},
           {"candidates", Json::array()},
           {"profile", profile(121)},
           {"baseline_profile", profile(101)},
           {"thresholds", {{"time_delta_ms", 10}, {"samples_per_s_delta", 0.1}, {"explained_within", 0.1}}},
           {"validation", {{"profile_complete", true}, {"loss_equal", true}}}};
    for (const auto& [name, ms, peak] : {std::tuple("baseline", 100., 300.), std::tuple("tuned", 120., 220.)}) {
      Json metrics = measured(ms, peak, "peak_memory_mb");
      metrics["peak_memory_bytes"] = static_cast<std::int64_t>(peak * 1048576);
      r74["candidates"].push_back({{"name", name}, {"metrics", metrics}});
    }
    conclude();
  }
  // Of a step of so many ms, and its profiled time the same.
  static Json profile(double ms) {
    return {{"compute_ratio", 0.9},
            {"exposed_transfer_ratio", 0.02},
            {"idle_ratio", 0.08},
            {"split",
             {{"step_ms", ms}, {"compute_ms", 0.9 * ms}, {"exposed_copy_in_ms", 0.02 * ms}, {"idle_ms", 0.08 * ms}}},
            {"step_time_by_events_ms", ms},
            {"completeness",
             {{"records", 9}, {"dropped", 0}, {"zero_timestamps", 0}, {"out_of_range", 0}, {"unattributed", 0}}},
            {"profiled_step_time_ms", ms}};
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

    const Json &base = r74["candidates"][0]["metrics"], &tuned = r74["candidates"][1]["metrics"];
    const double base_ms = base["step_time_ms"], tuned_ms = tuned["step_time_ms"];
    r74["baseline_profile"]["overhead"] = r74["baseline_profile"]["profiled_step_time_ms"].get<double>() / base_ms;
    r74["profile"]["overhead"] = r74["profile"]["profiled_step_time_ms"].get<double>() / tuned_ms;
    r74["summary"] = {{"time_delta_ms", base_ms - tuned_ms},
                      {"samples_per_s_delta", 1000 / tuned_ms - 1000 / base_ms},
                      {"peak_memory_delta_bytes", std::int64_t{80} << 20},
                      {"accepted_by_75", false}};
    Json& v = r74["validation"];
    v["measured_difference_ms"] = tuned_ms - base_ms;
    const auto split_ms = [&](const char* p) { return r74[p]["split"]["step_ms"].get<double>(); };
    v["explained_difference_ms"] = split_ms("profile") - split_ms("baseline_profile");
    v["noise_ms"] = noise_of_difference({100, 101, 100, 101}, {120, 121, 120, 121});
    v["explained"] =
        explains(v["measured_difference_ms"], v["explained_difference_ms"], v["noise_ms"], CloseoutThresholds{});
    r74["decision"] = decision_json(closeout_decision_of(r74));
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
    Json last = r74;
    const auto identity = [&](const char* name) { return file_identity((folder.path() / name).string()); };
    for (const auto& [profile, file] :
         {std::pair("profile", "74_trace_tuned.json"), std::pair("baseline_profile", "74_trace_baseline.json")}) {
      put(file, Json::array({file}));
      last[profile]["trace"] = identity(file);
    }
    last["sources"] = {{"73", identity("73_host_training.json")},
                       {"76", identity("76_host_memory.json")},
                       {"75", identity("75_memory_budget_decision.json")}};
    put("74_profiling_optimization.json", last);
  }
  RunCheck check() const { return check_run(folder.path()); }
};

// "yyyn": which of the four hold.
std::string pattern(const RunCheck& check) {
  std::string text;
  for (const Answer& a : check.answers) text += a.yes ? 'y' : 'n';
  return text;
}

// Changes a run, and expects `question` (0 .. 3) to be a no whose reason has `says`.
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

BOOST_AUTO_TEST_CASE(a_sound_run_gets_four_yeses) {
  HandMadeRun run;
  run.write();
  const RunCheck check = run.check();
  for (const Answer& a : check.answers) BOOST_TEST_MESSAGE(a.question << " " << a.reason);
  BOOST_TEST(pattern(check) == "yyyy");
  BOOST_TEST(check.files.size() == 9U);
  BOOST_TEST(check.all_hold());
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
  BOOST_TEST(pattern(check) == "yyny");
  BOOST_TEST(check.answers[2].reason.find("sensitive") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_close_out_that_lacks_evidence_or_contradicts_it_is_a_no) {
  const auto removed = [](const char* name) {
    return [name](HandMadeRun& run) {
      run.write();
      fs::remove(run.folder.path() / name);
    };
  };
  expect_no(3, "74_profiling_optimization.json is missing", removed("74_profiling_optimization.json"));
  expect_no(3, "74_trace_tuned.json is missing", removed("74_trace_tuned.json"));
  expect_no(3, "sources.73", removed("73_host_training.json"));
  expect_no(3, "is not the file that the record was made with", [](HandMadeRun& run) {
    run.write();
    run.put("74_trace_tuned.json", Json::array());
  });
  expect_no(3, "sources.75", [](HandMadeRun& run) {
    run.write();
    run.put("75_memory_budget_decision.json", Json::object());
  });
  expect_no(3, "names no file of this folder", [](HandMadeRun& run) {
    run.write();
    Json last = read_json(run.folder.path() / "74_profiling_optimization.json");
    last["profile"]["trace"]["file"] = "../elsewhere.json";
    run.put("74_profiling_optimization.json", last);
  });
  expect_no_when(3, "another profiler owns CUPTI", [](HandMadeRun& run) {
    run.r74["profile"] = {{"tool", nullptr}, {"unavailable", "another profiler owns CUPTI"}};
  });
  expect_no_when(3, "sum of compute, exposed transfer and idle",
                 [](HandMadeRun& run) { run.r74["profile"]["idle_ratio"] = 0.2; });
  expect_no_when(3, "split.step_ms", [](HandMadeRun& run) { run.r74["profile"]["split"]["compute_ms"] = 1.0; });
  expect_no_when(3, "the parts of a step sum to",
                 [](HandMadeRun& run) { run.r74["profile"]["step_time_by_events_ms"] = 125.0; });
  expect_no_when(3, "overhead", [](HandMadeRun& run) { run.r74["profile"]["overhead"] = 1.5; });
  expect_no_when(3, "validation.profile_complete",
                 [](HandMadeRun& run) { run.r74["profile"]["completeness"]["dropped"] = 1; });
  expect_no_when(3, "the profile is incomplete", [](HandMadeRun& run) {
    run.r74["profile"]["completeness"]["unattributed"] = 1;
    run.r74["validation"]["profile_complete"] = false;
    run.conclude();
  });
  expect_no_when(3, "validation.measured_difference_ms",
                 [](HandMadeRun& run) { run.r74["validation"]["measured_difference_ms"] = 21.0; });
  expect_no_when(3, "validation.noise_ms", [](HandMadeRun& run) { run.r74["validation"]["noise_ms"] = 50.0; });
  expect_no_when(3, "the profile explains", [](HandMadeRun& run) {
    run.r74["profile"] = HandMadeRun::profile(125);  // 24 ms of 20
    run.conclude();
  });
  expect_no_when(3, "validation.explained", [](HandMadeRun& run) {
    run.r74["profile"] = HandMadeRun::profile(125);
    run.conclude();
    run.r74["validation"]["explained"] = true;
  });
  expect_no_when(3, "summary.time_delta_ms", [](HandMadeRun& run) { run.r74["summary"]["time_delta_ms"] = 15.0; });
  expect_no_when(3, "decision.decision", [](HandMadeRun& run) { run.r74["decision"]["decision"] = "accept"; });
  expect_no_when(3, "trained something else",
                 [](HandMadeRun& run) { run.r74["candidates"][1]["metrics"]["eval_loss"] = 9.4; });
  expect_no_when(3, "losses of its repeats differ",
                 [](HandMadeRun& run) { run.r74["candidates"][1]["metrics"]["samples"][2]["loss"] = 9.0001; });
  expect_no_when(3, "not two candidates", [](HandMadeRun& run) { run.r74["candidates"].erase(1); });
}

// Records that this program wrote once are still what it would conclude today.
BOOST_AUTO_TEST_CASE(the_kept_reference_run_holds) {
  const RunCheck check = check_run("results/kept/host_small_768");
  for (const Answer& a : check.answers) BOOST_TEST_MESSAGE(a.question << " " << a.reason);
  BOOST_TEST(pattern(check) == "yyyy");
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_none_is_refused) {
  check_refused("check /nonexistent", "/nonexistent");
}

BOOST_AUTO_TEST_SUITE_END()
