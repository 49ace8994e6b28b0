// report_command.cpp - `spillway report`: a run's folder as one page.
#include <fmt/format.h>

#include "decision/commands.h"
#include "decision/provenance.h"
#include "decision/report/report.h"

namespace spillway::decision {

int report(const ReportCommand& command) {
  const Document document = read_document(command.folder);
  const std::string page = render_report(document);
  const std::filesystem::path file = write_report(command.folder, page);
  for (const Document::Missing& missing : document.missing)
    fmt::print("missing: {}, {}\n", one_line(missing.file), one_line(missing.what));
  fmt::print("report: {} ({} bytes)\n", file.string(), page.size());
  return 0;
}

}  // namespace spillway::decision
