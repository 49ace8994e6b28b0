// rules.h - the protocol's arithmetic, as pure functions on plain data: from the candidates of a 76 run and a budget to
// its summary, and from a summary to accept, tune or reject. No file, no clock, no device. PROTOCOL.md states the
// rules; 75 applies the same ones with wording of its own.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace spillway::decision {

// What the rules read of a candidate. An absent, non-numeric or null field is nullopt; a NaN stays a NaN.
struct Candidate {
  std::string name;
  std::string status = "ok";  // "ok", "oom", "invalid"
  std::optional<double> peak_memory_mb, samples_per_s, eval_loss, val_loss;
};

struct Budget {
  std::optional<double> memory_cap_mb;      // absent: no cap
  std::optional<double> min_samples_per_s;  // absent: no minimum
  std::optional<double> max_val_loss;       // absent: no floor (there is no valid baseline)
};

struct Thresholds {
  double saving_mb = 512.0;
  double throughput_ratio = 0.70;
};

struct Summary {
  int candidate_count = 0, measured_count = 0, oom_count = 0, invalid_count = 0, quality_failed_count = 0;
  std::vector<std::string> feasible_names;  // by peak ascending, samples_per_s descending, eval_loss ascending
  std::optional<std::string> best_candidate;
  std::optional<double> baseline_peak_memory_mb, best_peak_memory_mb;
  double memory_saving_mb = 0.0;  // baseline - best, 6 decimals; 0 when either is missing
  std::optional<double>
      throughput_ratio;  // best / baseline, 6 decimals; absent when either is missing or baseline is 0
};
Summary summarize(const std::vector<Candidate>& candidates, const Budget& budget);

enum class Wording { benchmark_76, budget_75 };
struct Decision {
  std::string decision, reason, next_action;
};
Decision decide(const Summary& summary, const Thresholds& thresholds, Wording wording);

// baseline eval_loss x 1.02, 6 decimals; absent when there is no valid baseline.
std::optional<double> default_quality_floor(const std::vector<Candidate>& candidates);

// Rounded to 6 decimals, half away from zero.
double round6(double value);
// The middle value (mean of the middle two); `values` must not be empty.
double median(std::vector<double> values);
// Median absolute deviation from the median.
double median_absolute_deviation(const std::vector<double>& values);

}  // namespace spillway::decision
