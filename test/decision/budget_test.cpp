// Experiment 75: the published run gives 24 tune and 3 reject; and over random records the whole grid and its
// sensitivity are what a second, plain reading of PROTOCOL.md gives.
#include "decision/budget_decision.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "decision/json_file.h"
#include "test/decision/program.h"

using namespace spillway::decision;
using namespace spillway::test;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

std::string published() {
  return (fixtures() / "published/76_real_gpu_memory.json").string();
}

// ---- the protocol, read a second time on JSON -----------------------------------------------------------------------

struct Plain {
  std::string decision, reason, best;
  std::vector<std::string> feasible;
};

bool finite(const Json& c, const char* key) {
  return c.contains(key) && c[key].is_number() && std::isfinite(c[key].get<double>());
}

std::optional<double> loss(const Json& c) {
  if (c.contains("eval_loss") && c["eval_loss"].is_number()) return c["eval_loss"].get<double>();
  if (c.contains("val_loss") && c["val_loss"].is_number()) return c["val_loss"].get<double>();
  return std::nullopt;
}

bool measured(const Json& c) {
  return finite(c, "peak_memory_mb") && finite(c, "samples_per_s") && loss(c) && std::isfinite(*loss(c));
}

// Null limits are no limits. Only candidates with status ok are read.
Plain plain(const Json& record, const Json& cap, const Json& minimum, const Json& floor, double saving_threshold,
            double ratio_threshold) {
  std::vector<Json> fit;
  Json baseline;
  int failed = 0;
  for (const Json& c : record["candidates"]) {
    if (c.value("status", "ok") != "ok" || !measured(c)) continue;
    if (baseline.is_null() && c["name"] == "baseline") baseline = c;
    if (!floor.is_null() && *loss(c) > floor.get<double>()) {
      failed++;
      continue;
    }
    if (!cap.is_null() && c["peak_memory_mb"].get<double>() > cap.get<double>()) continue;
    if (!minimum.is_null() && c["samples_per_s"].get<double>() < minimum.get<double>()) continue;
    fit.push_back(c);
  }
  // Insertion of each before the first that it beats: ties stay in the record's order.
  std::vector<Json> order;
  for (const Json& c : fit) {
    auto at = order.begin();
    while (at != order.end() && !(c["peak_memory_mb"] < (*at)["peak_memory_mb"] ||
                                  (c["peak_memory_mb"] == (*at)["peak_memory_mb"] &&
                                   (c["samples_per_s"] > (*at)["samples_per_s"] ||
                                    (c["samples_per_s"] == (*at)["samples_per_s"] && *loss(c) < *loss(*at))))))
      ++at;
    order.insert(at, c);
  }
  Plain p;
  for (const Json& c : order) p.feasible.push_back(c["name"]);
  if (order.empty()) return {"reject", "no_strategy_meets_budget_and_quality", "", {}};
  p.best = p.feasible[0];
  double saving = 0, ratio = 1e9;
  if (!baseline.is_null()) {
    saving = baseline["peak_memory_mb"].get<double>() - order[0]["peak_memory_mb"].get<double>();
    if (baseline["samples_per_s"] != 0.0)
      ratio = order[0]["samples_per_s"].get<double>() / baseline["samples_per_s"].get<double>();
  }
  p.decision = "tune";
  if (p.best != "baseline" && saving >= saving_threshold && ratio >= ratio_threshold) {
    p.decision = "accept";
    p.reason = "compression_strategy_is_best_feasible_option";
  } else if (failed > 0) {
    p.reason = "compression_needs_quality_recovery";
  } else if (saving < saving_threshold) {
    p.reason = "memory_saving_below_meaningful_threshold";
  } else if (ratio < ratio_threshold) {
    p.reason = "throughput_loss_exceeds_budget";
  } else {
    p.reason = "baseline_still_best_under_current_budget";
  }
  return p;
}

Json random_record(std::mt19937_64& random) {
  const auto pick = [&](auto list) { return *(list.begin() + static_cast<long>(random() % list.size())); };
  const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
  Json record = {{"stage", "activation_checkpoint_offload_benchmark"}, {"candidates", Json::array()}};
  const std::vector<std::string> names = {"baseline", "checkpoint", "offload", "hybrid", "baseline", "auto"};
  for (std::size_t i = 0, n = random() % 6; i < n; ++i) {
    Json c = {{"name", names[(i + (chance(20) ? 1 : 0)) % names.size()]},
              {"status", chance(10)   ? "oom"
                         : chance(10) ? "invalid"
                                      : "ok"}};
    c["peak_memory_mb"] = pick(std::vector<double>{9400, 9450, 9450, 9500, 9782.74, 10000, 10600, 11200});
    c["samples_per_s"] = pick(std::vector<double>{0.5, 1, 1, 1.4, 1.5, 2, 2.097, 0});
    c["eval_loss"] = pick(std::vector<double>{10, 10, 10.1, 10.2, 10.3, 10.6});
    for (const char* key : {"peak_memory_mb", "samples_per_s", "eval_loss"}) {
      if (chance(4))
        c.erase(key);
      else if (chance(3))
        c[key] = "fast";
      else if (chance(3))
        c[key] = nullptr;
    }
    if (chance(10)) {
      c["val_loss"] = c.contains("eval_loss") ? c["eval_loss"] : Json(10);
      c.erase("eval_loss");
    }
    if (chance(10)) c.erase("status");
    record["candidates"].push_back(c);
  }
  if (chance(70))
    record["budget"] = {{"memory_cap_mb", pick(std::vector<double>{9450, 10000, 20000})},
                        {"min_samples_per_s", pick(std::vector<double>{0, 1, 1.4})}};
  if (chance(50)) record["quality_floor"] = {{"max_val_loss", pick(std::vector<double>{10, 10.2, 20})}};
  return record;
}

Json nullable(const std::optional<double>& v) {
  return v ? Json(*v) : Json(nullptr);
}

void check_cell(const Json& record, const Cell& c, const Thresholds& t) {
  const Plain p = plain(record, nullable(c.budget.memory_cap_mb), nullable(c.budget.min_samples_per_s),
                        nullable(c.budget.max_val_loss), t.saving_mb, t.throughput_ratio);
  BOOST_REQUIRE_EQUAL(c.decision.decision, p.decision);
  BOOST_REQUIRE_EQUAL(c.decision.reason, p.reason);
  BOOST_REQUIRE_EQUAL(c.summary.best_candidate.value_or(""), p.best);
  BOOST_REQUIRE(c.summary.feasible_names == p.feasible);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(experiment_75)

BOOST_AUTO_TEST_CASE(the_published_run_gives_24_tune_and_3_reject_and_no_accept) {
  const BudgetDecision d = decide_budget(read_json(published()), "published", {});
  BOOST_TEST(d.point.decision.decision == "tune");
  BOOST_TEST(d.point.decision.reason == "memory_saving_below_meaningful_threshold");
  BOOST_TEST(d.point.decision.next_action == "test_larger_pressure_or_optimizer_compression");
  BOOST_TEST(d.point.summary.memory_saving_mb == 331.98);
  BOOST_TEST(*d.point.summary.throughput_ratio == 0.804483);
  BOOST_TEST((d.point.summary.feasible_names == std::vector<std::string>{"checkpoint", "hybrid", "baseline"}));
  BOOST_REQUIRE(d.grid.size() == 27U);
  std::map<std::string, int> count;
  for (const Cell& c : d.grid) {
    count[c.decision.decision]++;
    const bool tight = c.budget.memory_cap_mb == 9500 && std::abs(*c.budget.min_samples_per_s - 0.9 * 2.097) < 1e-6;
    BOOST_TEST((c.decision.decision == "reject") == tight);
  }
  BOOST_TEST(count["tune"] == 24);
  BOOST_TEST(count["reject"] == 3);
  BOOST_TEST(count["accept"] == 0);
  BOOST_TEST(d.sensitivity.conclusion == "stable");
}

BOOST_AUTO_TEST_CASE(every_cell_and_the_sensitivity_are_the_protocols_over_random_records) {
  std::mt19937_64 random(75);
  std::set<std::string> reasons, conclusions;
  for (int i = 0; i < 1500; ++i) {
    const Json record = random_record(random);
    BudgetOptions o;
    if (random() % 3 == 0) o.saving_threshold_mb = 40;
    if (random() % 3 == 0) o.throughput_threshold = 0.5;
    const BudgetDecision d = decide_budget(record, "random", o);
    check_cell(record, d.point, d.thresholds);
    std::map<std::string, double> share;
    for (const Cell& c : d.grid) {
      check_cell(record, c, d.thresholds);
      reasons.insert(c.decision.reason);
      share[c.decision.decision] += 1.0 / static_cast<double>(d.grid.size());
    }
    BOOST_REQUIRE(std::abs(share["accept"] - d.sensitivity.accept_share) < 1e-6);
    BOOST_REQUIRE(std::abs(share["reject"] - d.sensitivity.reject_share) < 1e-6);
    bool moves = false;
    for (const Neighbour& n : d.sensitivity.neighbours) {
      check_cell(record, n.cell, d.thresholds);
      BOOST_REQUIRE_EQUAL(n.differs, n.cell.decision.decision != d.point.decision.decision);
      moves |= n.differs;
    }
    const bool some = share["accept"] > 1e-9 && share["accept"] < 0.5 - 1e-9;
    BOOST_REQUIRE_EQUAL(d.sensitivity.conclusion, moves || some ? "sensitive" : "stable");
    conclusions.insert(d.sensitivity.conclusion);
    BOOST_REQUIRE(!budget_report(d).empty());
  }
  BOOST_TEST(reasons.size() == 6U);  // every rule was met
  BOOST_TEST(conclusions.size() == 2U);
}

BOOST_AUTO_TEST_CASE(neighbours_are_one_step_in_one_parameter) {
  const BudgetDecision d = decide_budget(read_json(published()), "published", {});
  // At cap 11200 (the grid's last), minimum 1.0 (below its first) and floor x 1.02 (its middle).
  std::vector<std::tuple<std::string, std::string, double>> seen;
  for (const Neighbour& n : d.sensitivity.neighbours) {
    const Budget &b = n.cell.budget, &p = d.point.budget;
    const int changed = (b.memory_cap_mb != p.memory_cap_mb) + (b.min_samples_per_s != p.min_samples_per_s) +
                        (b.max_val_loss != p.max_val_loss);
    BOOST_TEST(changed == 1);
    seen.emplace_back(n.parameter, n.direction,
                      n.parameter == "memory_cap_mb"  ? *b.memory_cap_mb
                      : n.parameter == "max_val_loss" ? *b.max_val_loss
                                                      : *b.min_samples_per_s);
  }
  BOOST_REQUIRE(seen.size() == 4U);
  BOOST_TEST((seen[0] == std::tuple<std::string, std::string, double>("memory_cap_mb", "below", 10000)));
  BOOST_TEST((seen[1] == std::tuple<std::string, std::string, double>("min_samples_per_s", "above", 1.0485)));
  BOOST_TEST(std::get<2>(seen[2]) == 12.480068);
  BOOST_TEST(std::get<2>(seen[3]) == 12.974328);
}

BOOST_AUTO_TEST_CASE(caps_are_the_published_ones_around_the_published_size_and_relative_elsewhere) {
  Json record = read_json(published());
  const auto caps = [&] { return decide_budget(record, "x", {}).caps; };
  BOOST_TEST(*caps()[0] == 9500);
  record["candidates"][0]["peak_memory_mb"] = 200.0;
  BOOST_TEST(*caps()[0] == 194.0);
  BOOST_TEST(*caps()[1] == 204.0);
  BOOST_TEST(*caps()[2] == 230.0);
  record["candidates"][0]["status"] = "oom";  // nothing to multiply
  BOOST_TEST(*caps()[0] == 9500);
  const BudgetDecision d = decide_budget(record, "x", {});
  BOOST_TEST(d.grid.size() == 3U);  // no minimum, no floor
  BOOST_TEST(!d.minima[0].has_value());
}

BOOST_AUTO_TEST_CASE(every_reason_is_told_in_a_sentence_whose_remedy_works) {
  const Json record = read_json(published());
  const auto decided = [&](auto set) {
    BudgetOptions o;
    set(o);
    return decide_budget(record, "x", o).point;
  };
  const auto said = [&](const Cell& c, double saving = 512) {
    std::vector<Candidate> all;
    for (const auto& cand : record["candidates"])
      all.push_back({cand["name"],
                     "ok",
                     cand["peak_memory_mb"].get<double>(),
                     cand["samples_per_s"].get<double>(),
                     cand["eval_loss"].get<double>(),
                     {}});
    return why(c, all, {.saving_mb = saving});
  };
  const Cell tune = decided([](BudgetOptions&) {});
  BOOST_TEST(said(tune).find("a saving threshold of 331.98 MiB or less") != std::string::npos);
  BOOST_TEST(decided([](BudgetOptions& o) { o.saving_threshold_mb = 331.98; }).decision.decision == "accept");
  BOOST_TEST(decided([](BudgetOptions& o) { o.saving_threshold_mb = 331.99; }).decision.decision == "tune");
  const Cell reject = decided([](BudgetOptions& o) { o.memory_cap_mb = 9000; });
  BOOST_TEST(said(reject).find("a cap of 9450.76 MiB would let checkpoint in") != std::string::npos);
  BOOST_TEST(decided([](BudgetOptions& o) { o.memory_cap_mb = 9450.76; }).summary.best_candidate.value() ==
             "checkpoint");
}

BOOST_AUTO_TEST_CASE(decide_writes_a_record_once_with_every_field) {
  const TemporaryFolder tmp;
  const std::string out = (tmp.path() / "75_memory_budget_decision.json").string();
  const Result r = spillway_run(fmt::format("decide --input {} --output {}", published(), out));
  BOOST_TEST_CONTEXT(r.err) BOOST_REQUIRE(r.status == 0);
  BOOST_TEST(r.out.find(" *") != std::string::npos);
  BOOST_TEST(r.out.find("why: ") != std::string::npos);
  const auto record = read(out);
  for (const char* key : {"task", "stage", "source", "config", "budget", "quality_floor", "thresholds", "candidates",
                          "summary", "decision", "grid", "sensitivity"})
    BOOST_TEST_CONTEXT(key) BOOST_TEST(record.contains(key));
  BOOST_TEST(record["grid"].size() == 27U);
  for (const auto& cell : record["grid"])
    for (const char* key : {"memory_cap_mb", "min_samples_per_s", "max_val_loss", "feasible_names", "best_candidate",
                            "memory_saving_mb", "throughput_ratio", "decision", "reason"})
      BOOST_TEST_CONTEXT(key) BOOST_TEST(cell.contains(key));
  for (const char* key : {"decision_shares", "accepted_shares", "neighbours", "conclusion"})
    BOOST_TEST_CONTEXT(key) BOOST_TEST(record["sensitivity"].contains(key));
  BOOST_TEST(record["candidates"] == read(published())["candidates"]);
  check_bytes_beside_mebibytes(record["grid"]);
  BOOST_TEST(std::filesystem::exists(tmp.path() / "75_memory_budget_decision_v1.json"));
  check_refused(fmt::format("decide --input {} --output {}", published(), out),
                "75_memory_budget_decision.json exists");
}

BOOST_AUTO_TEST_CASE(only_candidates_with_status_ok_are_read) {
  Json record = read_json(published());
  record["candidates"][1]["status"] = "oom";
  record["candidates"][3]["status"] = "skipped";
  const BudgetDecision d = decide_budget(record, "x", {});
  BOOST_TEST(d.candidates.size() == 2U);
  BOOST_TEST(d.point.summary.oom_count == 0);
}

BOOST_AUTO_TEST_CASE(a_field_that_is_no_number_is_invalid_and_not_replaced_by_another) {
  Json record = read_json(published());
  record["candidates"][1]["eval_loss"] = "low";
  record["candidates"][1]["val_loss"] = 12.0;
  record["candidates"][2]["eval_loss"] = nullptr;
  record["candidates"][2]["val_loss"] = 12.0;
  const BudgetDecision d = decide_budget(record, "x", {});
  BOOST_TEST(d.point.summary.invalid_count == 1);
  BOOST_TEST(d.point.summary.measured_count == 3);
}

BOOST_AUTO_TEST_CASE(saved_bytes_are_exact_though_the_mebibytes_are_rounded) {
  Json record = read_json(published());
  for (int i = 0; i < 300; ++i) {  // a byte is 0.00000095 MiB
    const std::int64_t baseline = 10257943040 + 512 * i, best = 9909700000 + i;
    record["candidates"][0]["peak_memory_mb"] = static_cast<double>(baseline) / 1048576;
    record["candidates"][1]["peak_memory_mb"] = static_cast<double>(best) / 1048576;
    record["candidates"][2]["status"] = record["candidates"][3]["status"] = "oom";
    BOOST_REQUIRE(budget_fields(decide_budget(record, "x", {}))["summary"]["memory_saving_bytes"] == baseline - best);
  }
}

BOOST_AUTO_TEST_CASE(bad_input_is_one_line) {
  const TemporaryFolder tmp;
  const auto refused = [&](const std::string& more, const std::string& says) {
    check_refused(fmt::format("decide --output {} {}", (tmp.path() / "75.json").string(), more), says);
  };
  const std::string input = "--input " + published();
  refused("--input /nonexistent/76.json", "/nonexistent/76.json");
  refused("--input " + tmp.path().string(), "no regular file");
  refused("--input /dev/zero", "no regular file");
  std::ofstream(tmp.path() / "bad.json") << "{\"candidates\": [NaN]}";
  refused("--input " + (tmp.path() / "bad.json").string(), "no NaN");
  std::ofstream(tmp.path() / "73.json") << "{\"baseline\": {}, \"tuned\": {}}";
  refused("--input " + (tmp.path() / "73.json").string(), "candidates");
  const fs::path made = tmp.path() / "made" / "75.json";
  fs::create_directory(made.parent_path());
  BOOST_REQUIRE(spillway_run(fmt::format("decide {} --output {}", input, made.string())).status == 0);
  refused("--input " + (made.parent_path() / "75_v1.json").string(), "raw 76 record");
  refused("--input " + made.string(), "75 record");
  refused(input + " --caps 12y", "12y");
  refused(input + " --caps -3", "-3");
  refused(input + " --caps nan", "nan");
  refused(input + " --caps ''", "caps");
  refused(input + " --memory-cap-mb inf", "memory-cap-mb inf");
  refused(input + " --throughput-fractions 0", "throughput-fractions 0");
  refused(input + " --loss-margins x", "x");
  std::string many = "1";
  for (int i = 0; i < 4000; ++i) many += ",1";
  refused(input + " --caps " + many, "at most 10000");
  BOOST_TEST(!std::filesystem::exists(tmp.path() / "75.json"));
}

BOOST_AUTO_TEST_SUITE_END()
