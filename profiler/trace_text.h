// trace_text.h - the pieces of JSON that a trace is made of. Numbers are written here and not by a JSON library because
// a trace's timestamps have exactly three decimals; strings are that library's.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "profiler/activity.h"

namespace spillway::profiler {

// With its quotes.
std::string json_string(std::string_view text);
// "1234.005", of nanoseconds >= 0.
std::string microseconds(Nanoseconds ns);

// {"a": 1, "b": "text"}
class Arguments {
 public:
  Arguments& add(std::string_view key, std::int64_t value);
  Arguments& add(std::string_view key, std::string_view value);
  std::string text() const { return "{" + members_ + "}"; }

 private:
  Arguments& member(std::string_view key, const std::string& value);
  std::string members_;
};

}  // namespace spillway::profiler
