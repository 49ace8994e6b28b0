// memory_chart.h - a memory timeline as stacked step areas, drawn in at most as many steps as a screen has columns,
// with the peak never lost among them.
#pragma once
#include <string>

#include "decision/report/node.h"

namespace spillway::decision {

// The most that was reserved or allocated, MiB.
double highest_mib(const Node& timeline);
// Of a memory-timeline/v1 record, SVG; `most`: the scale's end, MiB. Error: a point that is none.
std::string memory_chart(const Node& timeline, const std::string& strategy, double most);

}  // namespace spillway::decision
