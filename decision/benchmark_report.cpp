// benchmark_report.cpp - experiment 76 for people: the comparison, what stood in memory at each peak, the decision.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "decision/strategy_benchmark.h"
#include "decision/table.h"

namespace spillway::decision {
namespace {

std::string in_mib(std::int64_t bytes) {
  return fmt::format("{:.1f}", mib(bytes));
}

Table comparison(const Benchmark& b) {
  Table t({"strategy", "step ms", "spread", "samples/s", "peak MiB", "reserved MiB", "saving MiB", "throughput",
           "recompute ms", "moved MiB", "exposed ms", "loss", "eval loss"});
  const Measurement* base = nullptr;
  for (const Measurement& m : b.measurements)
    if (m.strategy == "baseline" && m.status == "ok") base = &m;
  for (const Measurement& m : b.measurements) {
    if (m.status != "ok") {
      t.row({m.strategy, m.status, "", "", "", "", "", "", "", "", "", "", ""});
      continue;
    }
    const double ms = median_step_ms(m);
    const bool is_base = &m == base;
    t.row({m.strategy, fmt::format("{:.1f}", ms), spread_text(m), fmt::format("{:.3f}", samples_per_s(m)),
           in_mib(m.peak_bytes), in_mib(m.peak_reserved_bytes),
           base && !is_base ? in_mib(base->peak_bytes - m.peak_bytes) : "-",
           base ? fmt::format("{:.3f}", median_step_ms(*base) / ms) : "-",
           m.recomputes ? fmt::format("{:.1f}", median_ms(m, &activation::StepCost::recompute_ms)) : "-",
           m.offloads ? in_mib(m.costs.back().offload_bytes + m.costs.back().prefetch_bytes) : "-",
           m.offloads && !m.pageable ? fmt::format("{:.1f}", median_ms(m, &activation::StepCost::exposed_transfer_ms))
                                     : "-",
           fmt::format("{:.6f}", m.samples.back().loss), fmt::format("{:.6f}", *m.eval_loss)});
  }
  return t;
}

Table at_peak(const Benchmark& b) {
  std::vector<std::string> head = {"MiB at the peak"};
  for (const char* name : memory::kCategoryNames) {
    std::string words = name;
    std::replace(words.begin(), words.end(), '_', ' ');
    head.push_back(words);
  }
  head.insert(head.end(), {"sum", "activation's own peak", "pinned host"});
  Table t(head);
  for (const Measurement& m : b.measurements) {
    if (m.status != "ok") continue;
    std::vector<std::string> row = {m.strategy};
    std::int64_t sum = 0;
    for (std::int64_t bytes : m.at_peak) {
      row.push_back(in_mib(bytes));
      sum += bytes;
    }
    row.insert(row.end(),
               {in_mib(sum), in_mib(m.peak_activation_bytes), m.offloads ? in_mib(m.pinned_host_bytes) : "-"});
    t.row(row);
  }
  return t;
}

}  // namespace

std::string benchmark_report(const Benchmark& b) {
  std::string text = comparison(b).text();
  for (const Measurement& m : b.measurements)
    if (m.status != "ok") text += fmt::format("{}: {}: {}\n", m.strategy, m.status, m.error);
  const auto ran =
      std::count_if(b.measurements.begin(), b.measurements.end(), [](auto& m) { return m.status == "ok"; });
  if (ran > 0)
    text += fmt::format("losses bit-identical across repeats and strategies: {}\n\n{}",
                        *b.losses_identical ? "yes" : "NO", at_peak(b).text());
  if (b.run.device.is_host)
    text +=
        "\nBytes are what a GPU allocates for the same step; times are this processor's and say nothing of a GPU.\n";
  const auto limit = [](const std::optional<double>& v, const char* unit) {
    return v ? fmt::format("{:.6g}{}", *v, unit) : std::string("none");
  };
  text += fmt::format("\nbudget: at most {}, at least {}, evaluation loss at most {}\n",
                      limit(b.budget.memory_cap_mb, " MiB"), limit(b.budget.min_samples_per_s, " samples/s"),
                      limit(b.budget.max_val_loss, ""));
  text += fmt::format("decision: {} ({}); next: {}\n", b.decision.decision, b.decision.reason, b.decision.next_action);
  const Thresholds& t = b.options.thresholds;
  text += fmt::format("  accept takes a saving of {:.6g} MiB or more at {:.6g} or more of the baseline's throughput\n",
                      t.saving_mb, t.throughput_ratio);
  if (b.summary.best_candidate)
    text += "  smallest that fits: " + *b.summary.best_candidate +
            (b.summary.baseline_peak_memory_mb
                 ? fmt::format(", saving {:.2f} MiB at {} of the baseline's throughput\n", b.summary.memory_saving_mb,
                               limit(b.summary.throughput_ratio, ""))
                 : std::string("; the baseline was not measured, so there is nothing to save against\n"));
  if (b.options.steps.warmup == 0)
    text += "no warm-up: peaks are of runs whose first step allocates the optimizer's states, not of steady steps\n";
  return text;
}

}  // namespace spillway::decision
