// node.cpp - see node.h.
#include "decision/report/node.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace spillway::decision {
namespace {

std::string in_pointer(const std::string& key) {
  std::string out;
  for (const char c : key) out += c == '~' ? std::string("~0") : c == '/' ? std::string("~1") : std::string(1, c);
  return out;
}

// As in a URI, so that a list of sources can be parted by spaces.
std::string in_uri(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '%' || c == '#' || static_cast<unsigned char>(c) <= ' ' ? fmt::format("%{:02X}", c) : std::string(1, c);
  return out;
}

}  // namespace

Node Node::child(std::string key, const nlohmann::ordered_json* json) const {
  Node node;
  node.record_ = record_;
  node.json_ = json;
  node.pointer_ = pointer_ + "/" + in_pointer(key);
  node.key_ = std::move(key);
  return node;
}

Node Node::operator[](std::string_view key) const {
  if (json_ == nullptr || !json_->is_object()) return {};
  const auto it = json_->find(key);
  return it == json_->end() ? Node() : child(std::string(key), &*it);
}

Node Node::operator[](std::size_t index) const {
  if (json_ == nullptr || !json_->is_array() || index >= json_->size()) return {};
  return child(std::to_string(index), &(*json_)[index]);
}

bool Node::present() const {
  return json_ != nullptr && !json_->is_null() && *json_ != "not_applicable";
}

std::optional<double> Node::number() const {
  if (!present()) return std::nullopt;
  if (!json_->is_number()) wrong("a number");
  return json_->get<double>();
}

std::string Node::text() const {
  if (!present()) return "";
  if (!json_->is_string()) wrong("text");
  return json_->get<std::string>();
}

bool Node::is_true() const {
  if (!present()) return false;
  if (!json_->is_boolean()) wrong("true or false");
  return json_->get<bool>();
}

std::size_t Node::size() const {
  if (!present()) return 0;
  if (!json_->is_array()) wrong("a list");
  return json_->size();
}

std::vector<Node> Node::children() const {
  std::vector<Node> all;
  if (!present()) return all;
  if (json_->is_object())
    for (const auto& [key, value] : json_->items()) all.push_back(child(key, &value));
  else if (json_->is_array())
    for (std::size_t i = 0; i < json_->size(); ++i) all.push_back((*this)[i]);
  else
    wrong("a list");
  return all;
}

std::string Node::source() const {
  return record_ == nullptr ? "" : in_uri(record_->file) + "#" + in_uri(pointer_);
}

std::string Node::dump() const {
  return json().dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

const nlohmann::ordered_json& Node::json() const {
  static const nlohmann::ordered_json kNull;
  return json_ == nullptr ? kNull : *json_;
}

void Node::wrong(const char* wanted) const {
  throw Error(fmt::format("{}: {} stands where {} should", source(), dump().substr(0, 60), wanted));
}

}  // namespace spillway::decision
