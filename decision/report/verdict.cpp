// verdict.cpp - the report's first part: what was decided at each of the four stages, why, and what kind of evidence
// that rests on.
#include <fmt/format.h>

#include <array>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using profiler::svg::escape;
namespace {

struct Stage {
  const char *number, *title;
  Node record;
  std::string figures;  // markup
};

std::string answer(const Document& d, std::size_t i) {
  if (i >= d.check.answers.size()) return "";
  const Answer& a = d.check.answers[i];
  return fmt::format("<p class=\"answer\"><b>{}</b> {}<br><span class=\"soft\">{}</span></p>", a.yes ? "✓ yes" : "✕ no",
                     escape(a.question), escape(a.reason));
}

std::string card(const Document& d, const Stage& stage, std::size_t i) {
  std::string body;
  const Node decision = stage.record["decision"];
  if (!stage.record.present())
    body = "<p class=\"soft\">The record is missing.</p>";
  else
    body = fmt::format("<p>{}</p><p class=\"why\" title=\"{}\">{}</p>{}", html::chip(decision["decision"].text()),
                       escape(decision["reason"].text()), html::words(decision["reason"].text()), stage.figures);
  return fmt::format("<li class=\"card\"><h3><span class=\"stage\">{}</span> {}</h3>{}{}</li>", stage.number,
                     stage.title, body, answer(d, i));
}

std::string row(const char* name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
}

std::string lead(const Document& d) {
  const Node last = d.profiling.present()   ? d.profiling
                    : d.budget.present()    ? d.budget
                    : d.benchmark.present() ? d.benchmark
                                            : d.training;
  const Node summary = d.budget.present() ? d.budget["summary"] : d.benchmark["summary"];
  std::string text = fmt::format("{} <b>{}</b>.", html::chip(last["decision"]["decision"].text()),
                                 html::words(last["decision"]["reason"].text()));
  if (const std::string best = summary["best_candidate"].text(); !best.empty())
    text += fmt::format(
        " Best under the budget: <b>{}</b>, {} less memory at the peak than the baseline, at {} its "
        "throughput.",
        escape(best), figure(summary["memory_saving_mb"], Unit::mebibytes),
        figure(summary["throughput_ratio"], Unit::ratio));
  return text;
}

std::string evidence_level(const Document& d) {
  if (d.evidence_level().empty())
    return "<p class=\"level\"><b>Evidence: not stated.</b> The records do not say what did the work.</p>\n";
  if (!d.host())
    return "<p class=\"level\"><b>Evidence: a GPU.</b> Times, bandwidths, bytes and losses were measured on the device "
           "named above.</p>\n";
  return "<p class=\"level\"><b>Evidence: host.</b> No GPU did this work. These records confirm bytes, lifetimes, "
         "losses "
         "and the logic of the decisions, byte for byte as on a GPU. They do not confirm a GPU’s times, bandwidths or "
         "out-of-memory behaviour: every time here is this processor’s.</p>\n";
}

}  // namespace

std::string verdict(const Document& d) {
  const Node t = d.training["summary"], b = d.benchmark["summary"], s = d.budget["sensitivity"],
             v = d.profiling["validation"];
  const std::array<Stage, 4> stages = {
      {{"73", "Training baseline", d.training,
        "<dl>" + row("varied", html::text(d.training["config"]["varied"])) +
            row("step time saved", figure(t["step_time_delta_ms"], Unit::milliseconds)) +
            row("peak saved", figure(t["peak_mem_delta_mb"], Unit::mebibytes)) + "</dl>"},
       {"76", "Strategy benchmark", d.benchmark,
        "<dl>" + row("best", html::text(b["best_candidate"])) +
            row("peak saved", figure(b["memory_saving_mb"], Unit::mebibytes)) +
            row("throughput", figure(b["throughput_ratio"], Unit::ratio)) + "</dl>"},
       {"75", "Budget decision", d.budget,
        "<dl>" + row("over the grid", html::text(s["conclusion"])) +
            row("cells that accept", figure(s["decision_shares"]["accept"], Unit::share)) +
            row("best", html::text(d.budget["summary"]["best_candidate"])) + "</dl>"},
       {"74", "Profiling close-out", d.profiling,
        "<dl>" + row("bottleneck", html::words(d.profiling["bottleneck"]["category"].text())) +
            row("measured difference", figure(v["measured_difference_ms"], Unit::milliseconds)) +
            row("explained", figure(v["explained_difference_ms"], Unit::milliseconds)) + "</dl>"}}};
  std::string body = evidence_level(d) + "<ol class=\"chain\">\n";
  for (std::size_t i = 0; i < stages.size(); ++i) body += card(d, stages[i], i) + "\n";
  body += "</ol>\n";
  if (!d.missing.empty()) {
    std::string list;
    for (const Document::Missing& m : d.missing)
      list += fmt::format("<li><code>{}</code> – {}</li>", escape(m.file), escape(m.what));
    body += fmt::format("<div class=\"note\"><b>Missing in this run’s folder</b><ul>{}</ul></div>\n", list);
  }
  return html::section("verdict", "What was decided, and why", lead(d), body);
}

}  // namespace spillway::decision::sections
