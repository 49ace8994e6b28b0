// sections.h - the parts of the report, one function and one file each. Every one of them says what is missing where a
// record is, and is never left out: the same report always has the same parts.
#pragma once
#include <string>

#include "decision/report/document.h"

namespace spillway::decision::sections {

std::string verdict(const Document& d);     // the decisions, why, and what kind of evidence they rest on
std::string strategies(const Document& d);  // memory against throughput, every figure and cost
std::string memory(const Document& d);      // over a step, by category, and the peak explained
std::string timeline(const Document& d);    // one step on the host and on every stream
std::string split(const Document& d);       // where a step's time goes, and what explains the difference
std::string bottleneck(const Document& d);
std::string roofline(const Document& d);
std::string operators(const Document& d);
std::string budgets(const Document& d);     // 75's grid and its sensitivity
std::string evidence(const Document& d);    // is the profile whole, what did it cost, do the runs agree
std::string provenance(const Document& d);  // device, code, commands, files

}  // namespace spillway::decision::sections
