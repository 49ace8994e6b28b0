// style.h - the report's style sheet: system fonts, one accent, two palettes that also who is colour blind can tell
// apart, light and dark, paper and phone.
#pragma once

namespace spillway::decision {
extern const char* const kReportStyle;
}  // namespace spillway::decision
