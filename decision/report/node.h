// node.h - a place in a record: what stands there, and where that is (file and JSON pointer, RFC 6901). A section of
// the report is written from nodes, so that every number in it can say where it comes from.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::decision {

// A file of the run's folder as read.
struct Record {
  std::string file;
  nlohmann::ordered_json json;
};

class Node {
 public:
  Node() = default;  // nowhere
  explicit Node(const Record& record) : record_(&record), json_(&record.json) {}

  // Nowhere, when there is no such member or element.
  Node operator[](std::string_view key) const;
  Node operator[](std::size_t index) const;

  // Something stands here, and it is neither null nor "not_applicable".
  bool present() const;
  // Of these Error, when something else stands here; absent, "", false, 0 or empty when this is not present.
  std::optional<double> number() const;
  std::string text() const;
  bool is_true() const;
  std::size_t size() const;  // of an array
  // The elements of an array, or the members of an object.
  std::vector<Node> children() const;

  const std::string& key() const { return key_; }  // under which this stands
  std::string source() const;                      // "76_host_memory.json#/candidates/0/loss", as in a URI
  std::string dump() const;                        // as JSON, full precision
  const nlohmann::ordered_json& json() const;      // null of nowhere

 private:
  Node child(std::string key, const nlohmann::ordered_json* json) const;
  [[noreturn]] void wrong(const char* wanted) const;
  const Record* record_ = nullptr;
  const nlohmann::ordered_json* json_ = nullptr;
  std::string pointer_, key_;
};

}  // namespace spillway::decision
