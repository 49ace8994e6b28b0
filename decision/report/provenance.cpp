// provenance.cpp - where the report's numbers come from: the machine, the code, the commands, the files.
#include <fmt/format.h>

#include "decision/report/figures.h"
#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "profiler/svg.h"

namespace spillway::decision::sections {
using profiler::svg::escape;
namespace {

// What a config says, as it says it.
std::string value(const Node& node) {
  return node.json().is_string() ? escape(node.text()) : escape(node.dump());
}

std::string config_table(const Node& config) {
  std::string rows;
  for (const Node& entry : config.children())
    if (entry.present())
      rows += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"wrap\">{}</td></tr>\n", html::words(entry.key()),
                          value(entry));
  return html::table({"setting", {"", true}}, rows, "Configuration");
}

}  // namespace

std::string provenance(const Document& d) {
  std::string body;
  struct Source {
    const char* number;
    Node record;
  };
  for (const Source& s :
       {Source{"74", d.profiling}, Source{"75", d.budget}, Source{"76", d.benchmark}, Source{"73", d.training}}) {
    if (!s.record.present()) continue;
    const Node config = s.record["config"], by = s.record["decided_by"];
    body += html::details(fmt::format("{}: <code>{}</code>", s.number,
                                      escape(by.present() ? by["command"].text() : config["command"].text())),
                          config_table(config) + (by.present() ? "<p>Decided by</p>" + config_table(by) : ""));
  }
  std::string files;
  for (const RunCheck::File& file : d.check.files)
    if (file.name != "report.html")
      files += fmt::format("<tr><th scope=\"row\"><code>{}</code></th><td class=\"num\">{}</td></tr>\n",
                           escape(file.name), digits(static_cast<double>(file.bytes), Unit::count));
  body += "<h3>Files of the run</h3>\n" + html::table({"file", "bytes"}, files, "Files of the run's folder");
  const Node c = d.config();
  const std::string lead = fmt::format(
      "On {}{}, commit <code>{}</code>. Written from the files of this folder alone.", html::text(c["device"]),
      c["processor"].present() ? fmt::format(" ({})", escape(c["processor"].text())) : "", html::text(c["git_commit"]));
  return html::section("provenance", "Where it comes from", lead, body);
}

}  // namespace spillway::decision::sections
