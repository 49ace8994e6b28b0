// report.h - results/<run>/report.html: everything that a run's records say, on one page that opens offline, without a
// script, on a phone and in the dark.
#pragma once
#include <filesystem>
#include <string>

#include "decision/report/document.h"

namespace spillway::decision {

// The whole page; it makes no request. Every figure carries its value and where in which record it stands.
std::string render_report(const Document& document);

// Into `folder`, in one go over an earlier one: it is derived from the records, not one of them. Returns its path.
// Error when it cannot be written; an earlier one stays then.
std::filesystem::path write_report(const std::filesystem::path& folder, const std::string& page);

}  // namespace spillway::decision
