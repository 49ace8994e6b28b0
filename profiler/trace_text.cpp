// trace_text.cpp - see trace_text.h.
#include "profiler/trace_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace spillway::profiler {

std::string json_string(std::string_view text) {
  return nlohmann::ordered_json(text).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string microseconds(Nanoseconds ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

Arguments& Arguments::add(std::string_view key, std::int64_t value) {
  return member(key, fmt::to_string(value));
}

Arguments& Arguments::add(std::string_view key, std::string_view value) {
  return member(key, json_string(value));
}

Arguments& Arguments::member(std::string_view key, const std::string& value) {
  members_ += fmt::format("{}{}:{}", members_.empty() ? "" : ",", json_string(key), value);
  return *this;
}

}  // namespace spillway::profiler
