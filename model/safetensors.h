// safetensors.h - Hugging Face's weight files: one model.safetensors, or shards named by model.safetensors.index.json.
// Format: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, then raw data.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace spillway::model {

// Everything that the format knows; a file may carry tensors that this program never reads.
enum class Dtype : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64
};
std::int64_t dtype_bytes(Dtype t);
const char* to_string(Dtype t);  // "F32"

struct StoredTensor {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // in the mapped file
  std::int64_t elements() const;
};

// Maps the files and checks every header: lengths, offsets in range, shape times dtype equal to the bytes, every byte
// of the data in one tensor and no more. Error, one line, names file and tensor.
class Safetensors {
 public:
  static Safetensors open_file(const std::filesystem::path& file);
  // model.safetensors in the folder, or the shards of its index, which must lie beside it.
  static Safetensors open_folder(const std::filesystem::path& folder);
  ~Safetensors();
  Safetensors(Safetensors&&) noexcept;
  Safetensors& operator=(Safetensors&&) noexcept;

  const StoredTensor* find(const std::string& name) const;
  const StoredTensor& at(const std::string& name) const;  // Error naming the file when absent
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

 private:
  Safetensors();
  struct Mapping;
  std::vector<std::unique_ptr<Mapping>> mappings_;
  std::map<std::string, StoredTensor> tensors_;
  std::string origin_;
};

}  // namespace spillway::model
