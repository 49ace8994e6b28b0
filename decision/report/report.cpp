// report.cpp - see report.h.
#include "decision/report/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "decision/report/html.h"
#include "decision/report/sections.h"
#include "decision/report/style.h"
#include "profiler/svg.h"
#include "runtime/error.h"

namespace spillway::decision {
namespace fs = std::filesystem;
using profiler::svg::escape;
namespace {

struct Part {
  const char *id, *name;
  std::string (*write)(const Document&);
};
constexpr std::array<Part, 11> kParts = {{{"verdict", "Decision", sections::verdict},
                                          {"strategies", "Strategies", sections::strategies},
                                          {"memory", "Memory", sections::memory},
                                          {"split", "Time", sections::split},
                                          {"timeline", "One step", sections::timeline},
                                          {"bottleneck", "Bottleneck", sections::bottleneck},
                                          {"roofline", "Roofline", sections::roofline},
                                          {"operators", "Operators", sections::operators},
                                          {"budgets", "Budgets", sections::budgets},
                                          {"evidence", "Trust", sections::evidence},
                                          {"provenance", "Provenance", sections::provenance}}};

// Nothing is fetched, whatever a record's text might have become; the one style sheet is the page's own.
constexpr const char* kPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

std::string plain(const Node& node) {
  return node.json().is_string() ? escape(node.text()) : escape(node.dump());
}

std::string about(const Node& config) {
  std::string text;
  for (const auto& [key, before] : {std::pair("model_id", "model "), std::pair("batch_size", "batch "),
                                    std::pair("seq_len", "seq "), std::pair("amp_dtype", ""), std::pair("device", "")})
    if (config[key].present()) text += fmt::format("{}{}{}", text.empty() ? "" : " · ", before, plain(config[key]));
  return text;
}

}  // namespace

std::string render_report(const Document& d) {
  std::string nav, body;
  for (const Part& part : kParts) {
    nav += fmt::format("<a href=\"#{}\">{}</a>", part.id, part.name);
    body += part.write(d);
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>{} – "
      "Spillway</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<header>\n<p class=\"eyebrow\">Spillway report</p>\n<h1>{}</h1>\n<p class=\"about\">{}</p>\n<nav>{}</nav>\n"
      "</header>\n<main>\n{}</main>\n<footer>Figures are the records’, rounded; the full value and its place in the "
      "record stand in each figure’s data-value and data-source.</footer>\n</body>\n</html>\n",
      kPolicy, escape(d.run), kReportStyle, escape(d.run), about(d.config()), nav, body);
}

fs::path write_report(const fs::path& folder, const std::string& page) {
  fs::path target = folder / "report.html";
  const fs::path temporary = folder / fmt::format(".report.html-{}", ::getpid());
  std::error_code ignored;
  errno = 0;
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << page;
    out.close();
    if (!out) {
      const std::string why = std::strerror(errno);
      fs::remove(temporary, ignored);
      throw Error(fmt::format("cannot write {}: {}", target.string(), why));
    }
  }
  std::error_code failed;
  fs::rename(temporary, target, failed);
  if (failed) {
    fs::remove(temporary, ignored);
    throw Error(fmt::format("cannot write {}: {}", target.string(), failed.message()));
  }
  return target;
}

}  // namespace spillway::decision
