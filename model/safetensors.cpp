// safetensors.cpp - see safetensors.h. A header is somebody else's claim about a file: every number in it is checked
// before it is used.
#include "model/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "model/printable.h"
#include "runtime/error.h"

namespace spillway::model {
namespace fs = std::filesystem;
namespace {

struct DtypeRow {
  Dtype dtype;
  const char* name;
  std::int64_t bytes;
};
constexpr std::array<DtypeRow, 15> kDtypes = {{{Dtype::boolean, "BOOL", 1},
                                               {Dtype::u8, "U8", 1},
                                               {Dtype::i8, "I8", 1},
                                               {Dtype::f8_e5m2, "F8_E5M2", 1},
                                               {Dtype::f8_e4m3, "F8_E4M3", 1},
                                               {Dtype::i16, "I16", 2},
                                               {Dtype::u16, "U16", 2},
                                               {Dtype::f16, "F16", 2},
                                               {Dtype::bf16, "BF16", 2},
                                               {Dtype::i32, "I32", 4},
                                               {Dtype::u32, "U32", 4},
                                               {Dtype::f32, "F32", 4},
                                               {Dtype::f64, "F64", 8},
                                               {Dtype::i64, "I64", 8},
                                               {Dtype::u64, "U64", 8}}};
const DtypeRow& row(Dtype t) {
  return *std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeRow& r) { return r.dtype == t; });
}

// Whatever else stands in the way (no permission, a name too long), there is no such file for us.
bool is_file(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored);
}

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw Error(fmt::format("{}: {}", file.string(), what));
}

}  // namespace

std::int64_t dtype_bytes(Dtype t) {
  return row(t).bytes;
}
const char* to_string(Dtype t) {
  return row(t).name;
}

std::int64_t StoredTensor::elements() const {
  return static_cast<std::int64_t>(data.size()) / dtype_bytes(dtype);
}

// A file mapped read-only.
struct Safetensors::Mapping {
  explicit Mapping(const fs::path& file) {
    const int fd =
        ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe must not wait for its writer
    if (fd < 0) fail(file, fmt::format("cannot be opened: {}", std::strerror(errno)));
    struct stat status {};
    const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    size = regular ? static_cast<std::size_t>(status.st_size) : 0;
    if (size > 0) base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    if (!regular) fail(file, "is not a regular file");
    if (base == MAP_FAILED) fail(file, fmt::format("cannot be mapped: {}", std::strerror(errno)));
  }
  ~Mapping() {
    if (size > 0) ::munmap(base, size);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(base), size}; }

  void* base = nullptr;
  std::size_t size = 0;
};

namespace {

// One entry of the header. `data` is what follows the header in the file.
StoredTensor parse_entry(const fs::path& file, std::string_view name, simdjson::dom::element value,
                         std::span<const std::byte> data) {
  const auto bad = [&](const std::string& what) { fail(file, fmt::format("tensor {}: {}", printable(name), what)); };
  simdjson::dom::object entry;
  std::string_view dtype;
  simdjson::dom::array shape, offsets;
  if (value.get(entry)) bad("its entry is not an object");
  if (entry["dtype"].get(dtype)) bad("no \"dtype\"");
  if (entry["shape"].get(shape)) bad("no \"shape\"");
  if (entry["data_offsets"].get(offsets) || offsets.size() != 2) bad("\"data_offsets\" must be two numbers");
  const auto* known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeRow& r) { return dtype == r.name; });
  if (known == kDtypes.end()) bad(fmt::format("dtype {} is not one of safetensors", printable(dtype)));

  StoredTensor t;
  t.name = name;
  t.dtype = known->dtype;
  std::int64_t bytes = known->bytes;
  for (const simdjson::dom::element n : shape) {
    std::int64_t size = 0;
    if (n.get(size) || size < 0) bad("\"shape\" must hold integers of at least 0");
    if (__builtin_mul_overflow(bytes, size, &bytes)) bad("its shape does not fit in 63 bits");
    t.shape.push_back(size);
  }
  std::int64_t begin = 0, end = 0;
  if (offsets.at(0).get(begin) || offsets.at(1).get(end) || begin < 0 || end < begin)
    bad("\"data_offsets\" must be a begin and an end");
  if (end > static_cast<std::int64_t>(data.size()))
    bad(fmt::format("ends at byte {} of {} bytes of data; the file is truncated or its header wrong", end,
                    data.size()));
  if (end - begin != bytes) bad(fmt::format("its shape needs {} bytes, \"data_offsets\" give {}", bytes, end - begin));
  t.data = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
  return t;
}

// The tensors of a file, in the order of their bytes, must take all of its data and share none: a hole means that the
// header is not this file's.
void check_layout(const fs::path& file, std::vector<StoredTensor>& tensors, std::span<const std::byte> data) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
  });
  const std::byte* next = data.data();
  for (std::size_t i = 0; i < tensors.size(); next = tensors[i].data.data() + tensors[i].data.size(), ++i) {
    if (tensors[i].data.data() < next)
      fail(file, fmt::format("tensors {} and {} overlap", printable(tensors[i - 1].name), printable(tensors[i].name)));
    if (tensors[i].data.data() > next)
      fail(file, fmt::format("{} bytes before tensor {} belong to no tensor", tensors[i].data.data() - next,
                             printable(tensors[i].name)));
  }
  if (next != data.data() + data.size())
    fail(file, fmt::format("its last {} bytes belong to no tensor", data.data() + data.size() - next));
}

// Every tensor of one file.
std::vector<StoredTensor> parse(const fs::path& file, std::span<const std::byte> bytes) {
  constexpr std::size_t kPrefix = 8, kMostHeader = 100'000'000;
  if (bytes.size() < kPrefix)
    fail(file, fmt::format("has {} bytes; safetensors begin with 8 bytes of header length", bytes.size()));
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < kPrefix; ++i) header |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  if (header > kMostHeader || header > bytes.size() - kPrefix)
    fail(file, fmt::format("claims a header of {} bytes in a file of {}; it is truncated or not safetensors", header,
                           bytes.size()));
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::object object;
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + kPrefix, header);
  if (const auto error = parser.parse(text).get(root))
    fail(file, fmt::format("its header is not JSON: {}", simdjson::error_message(error)));
  if (root.get(object)) fail(file, "its header is not a JSON object");

  const std::span<const std::byte> data = bytes.subspan(kPrefix + header);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, value] : object)
    if (name != "__metadata__") tensors.push_back(parse_entry(file, name, value, data));
  check_layout(file, tensors, data);
  return tensors;
}

// {tensor name: shard's file name} of an index.
std::map<std::string, std::string> read_index(const fs::path& index) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::object weights;
  if (const auto error = parser.load(index.string()).get(root))
    fail(index, fmt::format("is not JSON: {}", simdjson::error_message(error)));
  if (root["weight_map"].get(weights)) fail(index, "lacks \"weight_map\", an object of tensor names and file names");
  std::map<std::string, std::string> map;
  for (const auto& [name, value] : weights) {
    std::string_view shard;
    if (value.get(shard)) fail(index, fmt::format("\"weight_map\": the shard of {} is not a string", printable(name)));
    // Nothing outside the folder is opened on a file's word.
    if (shard.empty() || shard.starts_with('.') || shard.find('/') != shard.npos || shard.find('\0') != shard.npos)
      fail(index, fmt::format("\"weight_map\": '{}' is not a file name beside the index", printable(shard)));
    if (!is_file(index.parent_path() / shard))
      fail(index, fmt::format("places {} in {}, which is not a file beside it", printable(name), printable(shard)));
    map.emplace(name, shard);
  }
  return map;
}

}  // namespace

Safetensors::Safetensors() = default;
Safetensors::~Safetensors() = default;
Safetensors::Safetensors(Safetensors&&) noexcept = default;
Safetensors& Safetensors::operator=(Safetensors&&) noexcept = default;

Safetensors Safetensors::open_file(const fs::path& file) {
  Safetensors s;
  s.origin_ = file.string();
  s.mappings_.push_back(std::make_unique<Mapping>(file));
  for (StoredTensor& t : parse(file, s.mappings_.back()->bytes())) {
    const std::string name = t.name;
    if (!s.tensors_.emplace(name, std::move(t)).second)
      fail(file, fmt::format("tensor {} is there twice", printable(name)));
  }
  return s;
}

Safetensors Safetensors::open_folder(const fs::path& folder) {
  const fs::path whole = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (is_file(whole)) return open_file(whole);
  if (!is_file(index))
    throw Error(fmt::format("{} holds neither model.safetensors nor model.safetensors.index.json", folder.string()));
  Safetensors s;
  s.origin_ = index.string();
  std::map<std::string, Safetensors> shards;
  for (const auto& [name, shard] : read_index(index)) {
    auto it = shards.find(shard);
    if (it == shards.end()) it = shards.emplace(shard, open_file(folder / shard)).first;
    const StoredTensor* t = it->second.find(name);
    if (!t)
      fail(folder / shard, fmt::format("lacks {}, which {} places there", printable(name), index.filename().string()));
    s.tensors_.emplace(name, *t);
  }
  for (auto& [shard, opened] : shards)
    for (auto& mapping : opened.mappings_) s.mappings_.push_back(std::move(mapping));
  return s;
}

const StoredTensor* Safetensors::find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

const StoredTensor& Safetensors::at(const std::string& name) const {
  const StoredTensor* t = find(name);
  if (!t) throw Error(fmt::format("{}: lacks tensor {}", origin_, name));
  return *t;
}

}  // namespace spillway::model
