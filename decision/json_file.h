// json_file.h - reading JSON, our own and other tools': simdjson parses and validates, and what comes out is the
// ordered tree that the rest of decision/ writes. Numbers stay what they were: an integer an integer, a double the same
// double.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::decision {

// Error, in one line that names the file: it does not exist, is no regular file, is larger than 256 MiB, or is not JSON
// (a bare NaN or Infinity, which some tools write, is not). Of a key that stands twice the last value counts.
nlohmann::ordered_json read_json(const std::filesystem::path& file);
// The same of a text; `name` is what messages call it.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& name);

// The number, or text, at `key`; absent where `object` is no object, has no such key, or has something else there.
std::optional<double> number_at(const nlohmann::ordered_json& object, std::string_view key);
std::optional<std::string> text_at(const nlohmann::ordered_json& object, std::string_view key);
// The value at `key`; null where there is none.
nlohmann::ordered_json value_at(const nlohmann::ordered_json& object, std::string_view key);

}  // namespace spillway::decision
