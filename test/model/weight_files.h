// weight_files.h - safetensors files for tests, written from the format's description and not by the reader's own code:
// 8 bytes of little-endian header length, a JSON header, the data.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "test/bad_input.h"

namespace spillway::test {

struct Entry {
  std::string name, dtype, data;
  std::vector<std::int64_t> shape;
};

// The bytes of `values`, as they lie in memory: this machine is little-endian, as the format is.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline std::string with_length(const std::string& header, const std::string& data) {
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + header + data;
}

inline std::string header_entry(const Entry& e, std::size_t begin) {
  std::string shape;
  for (const std::int64_t n : e.shape) shape += (shape.empty() ? "" : ",") + std::to_string(n);
  return "\"" + e.name + "\":{\"dtype\":\"" + e.dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(begin + e.data.size()) + "]}";
}

inline std::string safetensors_file(const std::vector<Entry>& entries) {
  std::string header = R"({"__metadata__":{"format":"pt"})", data;
  for (const Entry& e : entries) {
    header += "," + header_entry(e, data.size());
    data += e.data;
  }
  return with_length(header + "}", data);
}

}  // namespace spillway::test
