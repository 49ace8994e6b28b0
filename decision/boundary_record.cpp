// boundary_record.cpp - the boundaries as a file and for people.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "decision/oom_boundary.h"
#include "decision/table.h"

namespace spillway::decision {
namespace {
using Json = nlohmann::ordered_json;

Json probe(const Probe& p) {
  Json j = {{"seq_len", p.seq}, {"fits", p.fits}};
  if (p.fits) {
    j["peak_memory_mb"] = mib(p.peak_bytes);
    j["peak_memory_bytes"] = p.peak_bytes;
    j["peak_reserved_mb"] = mib(p.peak_reserved_bytes);
    j["peak_reserved_bytes"] = p.peak_reserved_bytes;
    j["offload_host_bytes"] = p.host_bytes;
  } else {
    j["error"] = p.error;
  }
  return j;
}

Json boundary(const Boundary& b) {
  Json probes = Json::array();
  for (const Probe& p : b.probes) probes.push_back(probe(p));
  return {{"name", b.strategy},
          {"largest_seq_len", b.largest ? Json(b.largest->seq) : Json(nullptr)},
          {"first_failing_seq_len", b.first_failing ? Json(b.first_failing->seq) : Json(nullptr)},
          {"error", b.first_failing ? Json(b.first_failing->error) : Json(nullptr)},
          {"limited_by", b.first_failing ? "memory" : "model_positions"},
          {"confirmed_by_training", b.confirmed ? Json(*b.confirmed) : Json(nullptr)},
          {"probes", probes}};
}

}  // namespace

nlohmann::ordered_json boundary_record(const BoundaryRun& run, const std::string& command) {
  Json r;
  r["task"] = "task3_training_memory_optimization";
  r["stage"] = "oom_boundary";
  r["evidence_level"] = run.options.set_books_only ? "simulated" : evidence_level(run.run.device);
  Json config = run_config(run.run, command);
  config["seq_len"] = nullptr;  // what is searched for
  config["workload"] = "oom_boundary";
  config["strategies"] = run.options.strategies;
  config["seq_len_step"] = kBoundaryStep;
  config["max_positions"] = run.positions;
  config["steps_a_probe"] = 2;
  r["config"] = config;
  r["budget"] = {{"memory_cap_mb", run.memory_cap_mb}, {"memory_cap_bytes", bytes_or_null(run.memory_cap_mb)}};
  Json list = Json::array();
  for (const Boundary& b : run.boundaries) list.push_back(boundary(b));
  r["boundaries"] = list;
  return r;
}

std::string boundary_report(const BoundaryRun& run) {
  Table t({"strategy", "largest seq", "peak MiB", "reserved MiB", "offloaded to the host MiB", "first that fails",
           "probes", "trained at both"});
  std::string errors;
  for (const Boundary& b : run.boundaries) {
    const auto figure = [&](std::int64_t Probe::*bytes) {
      return b.largest ? fmt::format("{:.1f}", mib((*b.largest).*bytes)) : std::string("-");
    };
    t.row({b.strategy, b.largest ? std::to_string(b.largest->seq) : "none", figure(&Probe::peak_bytes),
           figure(&Probe::peak_reserved_bytes), figure(&Probe::host_bytes),
           b.first_failing ? std::to_string(b.first_failing->seq) : "-", std::to_string(b.probes.size()),
           !b.confirmed   ? "not asked"
           : *b.confirmed ? "holds"
                          : "DOES NOT HOLD"});
    errors += b.first_failing ? fmt::format("{} at {}: {}\n", b.strategy, b.first_failing->seq, b.first_failing->error)
                              : fmt::format("{}: fits up to the model's last multiple of {} positions\n", b.strategy,
                                            kBoundaryStep);
  }
  std::string text =
      fmt::format("longest sequence that trains within {:.6g} MiB\n\n{}{}", run.memory_cap_mb, t.text(), errors);
  if (run.options.set_books_only)
    text += "\nSearched by the books: every allocation of two training steps, in order, without computing them.\n";
  return text;
}

}  // namespace spillway::decision
