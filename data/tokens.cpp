// tokens.cpp - see tokens.h: the three sources. A file is read once and checked whole when it is opened.
#include "data/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

#include "runtime/error.h"

namespace spillway::data {
namespace {

// The generator's numbers are specified by the standard; std::uniform_int_distribution is not, so ranges are made here.
std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) {
  return random() % bound;
}

void demand_rows(std::int64_t batch, std::int64_t seq) {
  if (batch < 1 || seq < 1) throw Error(fmt::format("batch {}, seq {}: both must be at least 1", batch, seq));
  checked_mul(batch, seq, "batch x seq");
}

class RandomTokens final : public TokenSource {
 public:
  RandomTokens(std::int64_t vocab, std::uint64_t seed) : vocab_(vocab), seed_(seed) {}
  TokenBatch next(std::int64_t batch, std::int64_t seq) override { return nth(batch, seq, 0); }
  TokenBatch evaluation(std::int64_t batch, std::int64_t seq) override { return nth(batch, seq, 1); }
  std::string description() const override { return fmt::format("uniform random tokens, seed {}", seed_); }

 private:
  // The n-th batch of the generator.
  TokenBatch nth(std::int64_t batch, std::int64_t seq, int n) const {
    demand_rows(batch, seq);
    const std::int64_t count = batch * seq;
    std::mt19937_64 random(seed_);
    random.discard(static_cast<unsigned long long>(n) * static_cast<unsigned long long>(count));
    TokenBatch b{batch, seq, {}};
    b.ids.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      b.ids.push_back(static_cast<std::int32_t>(below(random, static_cast<std::uint64_t>(vocab_))));
    return b;
  }
  std::int64_t vocab_;
  std::uint64_t seed_;
};

// Windows into one long row of ids: the last tenth is held out, training windows begin anywhere in the rest.
class FileTokens final : public TokenSource {
 public:
  FileTokens(std::string file, std::string what, std::vector<std::int32_t> ids, std::uint64_t seed)
      : file_(std::move(file)), what_(std::move(what)), ids_(std::move(ids)), random_(seed) {
    held_out_ = ids_.size() - ids_.size() / 10;
  }

  TokenBatch next(std::int64_t batch, std::int64_t seq) override {
    demand(batch, seq, held_out_, "for training");
    TokenBatch b{batch, seq, {}};
    const std::uint64_t places = held_out_ - static_cast<std::size_t>(seq) + 1;
    for (std::int64_t row = 0; row < batch; ++row) append(b, below(random_, places));
    return b;
  }

  TokenBatch evaluation(std::int64_t batch, std::int64_t seq) override {
    const std::size_t length = ids_.size() - held_out_;
    demand(batch, seq, length, "in the last tenth, which is held out for evaluation");
    TokenBatch b{batch, seq, {}};
    // Spread evenly; rows overlap where the held-out part is short.
    const std::uint64_t places = length - static_cast<std::size_t>(seq);
    const auto rows = static_cast<std::uint64_t>(batch);
    for (std::uint64_t row = 0; row < rows; ++row) append(b, held_out_ + (rows > 1 ? places * row / (rows - 1) : 0));
    return b;
  }

  std::string description() const override { return fmt::format("{} {} of {}", ids_.size(), what_, file_); }

 private:
  void demand(std::int64_t batch, std::int64_t seq, std::size_t have, const char* where) const {
    demand_rows(batch, seq);
    if (have < static_cast<std::size_t>(seq))
      throw Error(fmt::format("{}: {} {} {}; seq {} needs at least {} in the whole file", file_, have, what_, where,
                              seq, checked_mul(10, seq, "file size")));
  }
  void append(TokenBatch& b, std::uint64_t begin) const {
    const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(begin);
    b.ids.insert(b.ids.end(), first, first + static_cast<std::ptrdiff_t>(b.seq));
  }

  std::string file_, what_;
  std::vector<std::int32_t> ids_;
  std::mt19937_64 random_;
  std::size_t held_out_ = 0;  // where the evaluation part begins
};

std::string read_whole(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw Error(fmt::format("{} is a folder; give a file", file.string()));
  // A pipe may never end, and a device never does.
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored))
    throw Error(fmt::format("{} is no regular file", file.string()));
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(fmt::format("{} cannot be read", file.string()));
  std::string bytes;
  try {
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  } catch (const std::ios_base::failure&) {
    in.setstate(std::ios_base::badbit);
  }
  if (in.bad()) throw Error(fmt::format("{} cannot be read to its end", file.string()));
  if (bytes.empty()) throw Error(fmt::format("{} is empty", file.string()));
  return bytes;
}

}  // namespace

std::unique_ptr<TokenSource> random_tokens(std::int64_t vocab, std::uint64_t seed) {
  return std::make_unique<RandomTokens>(vocab, seed);
}

std::unique_ptr<TokenSource> text_tokens(const std::filesystem::path& file, std::int64_t vocab, std::uint64_t seed) {
  constexpr std::int64_t kBytes = 256;
  if (vocab < kBytes)
    throw Error(fmt::format("{}: text is read as bytes, which need a vocabulary of 256; this model has {}",
                            file.string(), vocab));
  const std::string bytes = read_whole(file);
  std::vector<std::int32_t> ids;
  ids.reserve(bytes.size());
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  return std::make_unique<FileTokens>(file.string(), "bytes", std::move(ids), seed);
}

std::unique_ptr<TokenSource> id_tokens(const std::filesystem::path& file, std::int64_t vocab, std::uint64_t seed) {
  const std::size_t width = file.extension() == ".u16" ? 2 : 4;
  const std::string bytes = read_whole(file);
  if (bytes.size() % width != 0)
    throw Error(fmt::format("{}: {} bytes are no whole number of {}-byte ids", file.string(), bytes.size(), width));
  std::vector<std::int32_t> ids;
  ids.reserve(bytes.size() / width);
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::uint32_t id = 0;
    for (std::size_t i = 0; i < width; ++i)
      id |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    if (id >= static_cast<std::uint64_t>(vocab))
      throw Error(fmt::format("{}: id {} at position {} is outside the vocabulary of {}", file.string(), id, at / width,
                              vocab));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return std::make_unique<FileTokens>(file.string(), "ids", std::move(ids), seed);
}

std::unique_ptr<TokenSource> open_tokens(const std::filesystem::path& file, std::int64_t vocab, std::uint64_t seed) {
  if (file.empty()) return random_tokens(vocab, seed);
  if (file.extension() == ".u16" || file.extension() == ".u32") return id_tokens(file, vocab, seed);
  return text_tokens(file, vocab, seed);
}

}  // namespace spillway::data
