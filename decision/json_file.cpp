// json_file.cpp - see json_file.h.
#include "decision/json_file.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace spillway::decision {
namespace {
using Json = nlohmann::ordered_json;
namespace dom = simdjson::dom;

constexpr std::uintmax_t kMaxBytes = 256u << 20;

Json convert(const dom::element& e) {
  switch (e.type()) {
    case dom::element_type::OBJECT: {
      Json object = Json::object();
      for (const auto [key, value] : dom::object(e)) object[std::string(key)] = convert(value);
      return object;
    }
    case dom::element_type::ARRAY: {
      Json array = Json::array();
      for (const dom::element value : dom::array(e)) array.push_back(convert(value));
      return array;
    }
    case dom::element_type::INT64:
      return std::int64_t(e);
    case dom::element_type::UINT64:
      return std::uint64_t(e);
    case dom::element_type::DOUBLE:
      return double(e);
    case dom::element_type::STRING:
      return std::string(std::string_view(e));
    case dom::element_type::BOOL:
      return bool(e);
    default:
      return nullptr;
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& name) {
  dom::parser parser;
  dom::element root;
  const simdjson::error_code error = parser.parse(simdjson::padded_string(text)).get(root);
  if (error == simdjson::SUCCESS) return convert(root);
  const bool bare = text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos;
  throw Error(fmt::format("{} is not JSON: {}{}", name, simdjson::error_message(error),
                          bare ? " (JSON has no NaN and no Infinity: write null)" : ""));
}

Json read_json(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  const std::string name = file.string();
  std::error_code failed;
  const fs::file_status status = fs::status(file, failed);
  if (!fs::exists(status)) throw Error(fmt::format("{}: no such file", name));
  if (!fs::is_regular_file(status)) throw Error(fmt::format("{} is no regular file", name));
  const std::uintmax_t bytes = fs::file_size(file, failed);
  if (failed) throw Error(fmt::format("cannot read {}: {}", name, failed.message()));
  if (bytes > kMaxBytes) throw Error(fmt::format("{} has {} bytes: a record has at most {}", name, bytes, kMaxBytes));
  std::ifstream in(file, std::ios::binary);
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(in), {});
  } catch (const std::ios_base::failure&) {
    in.setstate(std::ios_base::badbit);
  }
  if (!in) throw Error(fmt::format("cannot read {}", name));
  return parse_json(text, name);
}

std::optional<double> number_at(const Json& object, std::string_view key) {
  const Json value = value_at(object, key);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::optional<std::string> text_at(const Json& object, std::string_view key) {
  const Json value = value_at(object, key);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

Json value_at(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? Json(nullptr) : *it;
}

}  // namespace spillway::decision
