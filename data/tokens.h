// tokens.h - where a step's tokens come from: seeded random ids, a text file read as bytes, or a file of token ids.
// A batch is row-major (batch, seq) on the host; the model checks and uploads it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace spillway::data {

struct TokenBatch {
  std::int64_t batch = 0, seq = 0;
  std::vector<std::int32_t> ids;  // (batch, seq)
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // The next training batch.
  virtual TokenBatch next(std::int64_t batch, std::int64_t seq) = 0;
  // The evaluation batch: the same every time, and never a training batch.
  virtual TokenBatch evaluation(std::int64_t batch, std::int64_t seq) = 0;
  virtual std::string description() const = 0;  // for records: "uniform random, seed 42"
};

// Uniform over the vocabulary, from std::mt19937_64(seed). next() gives the same batch each time (one fixed workload,
// as the protocol's measurements want); evaluation() is the second batch of the same generator.
std::unique_ptr<TokenSource> random_tokens(std::int64_t vocab, std::uint64_t seed);

// A text file, one token a byte (ids 0..255), for a vocabulary of at least 256. The last tenth is held out for
// evaluation; training windows begin at seeded places in the rest. Error: missing, unreadable, empty, or, when first
// asked, shorter than 10 * seq bytes.
std::unique_ptr<TokenSource> text_tokens(const std::filesystem::path& file, std::int64_t vocab, std::uint64_t seed);

// A file of little-endian ids, uint16 (.u16) or uint32 (.u32). Every id is checked against the vocabulary on opening;
// Error names file, position and id of the first that is outside.
std::unique_ptr<TokenSource> id_tokens(const std::filesystem::path& file, std::int64_t vocab, std::uint64_t seed);

// By the file's ending: .u16 / .u32 are ids, anything else is text; an empty path is random.
std::unique_ptr<TokenSource> open_tokens(const std::filesystem::path& file, std::int64_t vocab, std::uint64_t seed);

}  // namespace spillway::data
