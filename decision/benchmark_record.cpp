// benchmark_record.cpp - experiment 76 as a file: the raw record of PROTOCOL.md, field for field, and beside it what we
// add (exact bytes, every sample, the categories at the peak). What was not measured is null.
#include <nlohmann/json.hpp>

#include "decision/rules_json.h"
#include "decision/run_record.h"
#include "decision/strategy_benchmark.h"

namespace spillway::decision {
using Json = nlohmann::ordered_json;

nlohmann::ordered_json benchmark_record(const Benchmark& b, const std::string& command) {
  Json r;
  r["task"] = "task3_training_memory_optimization";
  r["stage"] = "activation_checkpoint_offload_benchmark";
  r["next_stage"] = "memory_budget_decision";
  r["evidence_level"] = evidence_level(b.run.device);
  r["source_baseline"] = text_or_null(b.options.source_baseline);
  Json config = run_config(b.run, command);
  add_steps(config, b.options.steps);
  config["strategies"] = b.options.strategies;
  r["config"] = config;
  r["budget"] = budget_json(b.budget);
  r["quality_floor"] = quality_floor_json(b.budget);
  r["thresholds"] = thresholds_json(b.options.thresholds);
  r["thresholds"]["noisy_spread"] = kNoisySpread;
  Json list = Json::array();
  for (const Measurement& m : b.measurements) {
    Json c = {{"name", m.name}};
    c.update(measured_fields(m, "peak_memory", b.options.steps));
    list.push_back(c);
  }
  r["candidates"] = list;
  r["losses_identical"] = b.losses_identical ? Json(*b.losses_identical) : Json(nullptr);
  r["summary"] = summary_json(b.summary);
  r["decision"] = decision_json(b.decision);
  return r;
}

}  // namespace spillway::decision
