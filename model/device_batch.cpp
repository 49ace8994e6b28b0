// device_batch.cpp - see device_batch.h.
#include "model/device_batch.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "runtime/cuda.h"

namespace spillway::model {

DeviceBatch::DeviceBatch(Index batch, Index seq, Index vocab, const Execution& run)
    : batch_(batch),
      seq_(seq),
      vocab_(vocab),
      rows_(checked_mul(batch, seq, "batch x seq")),
      run_(run),
      host_(static_cast<std::size_t>(4 * rows_ + 1)),
      device_(run.allocator, 4 * rows_ + 1, memory::Category::workspace, run.stream, "token batch") {}

void DeviceBatch::upload(const data::TokenBatch& tokens) {
  const auto& ids = tokens.ids;
  if (tokens.batch != batch_ || tokens.seq != seq_ || static_cast<Index>(ids.size()) != rows_)
    throw Error("tokens: (" + std::to_string(tokens.batch) + ", " + std::to_string(tokens.seq) + ") with " +
                std::to_string(ids.size()) + " ids; this trainer takes (" + std::to_string(batch_) + ", " +
                std::to_string(seq_) + ")");
  const auto outside = std::find_if(ids.begin(), ids.end(), [&](auto id) { return id < 0 || id >= vocab_; });
  if (outside != ids.end()) {
    const Index position = outside - ids.begin();
    throw Error("tokens: row " + std::to_string(position / seq_) + ", position " + std::to_string(position % seq_) +
                ": id " + std::to_string(*outside) + " is outside the vocabulary of " + std::to_string(vocab_));
  }

  std::int32_t* id = host_.data();
  std::int32_t* target = id + rows_;
  std::int32_t* order = target + rows_;
  std::int32_t* segment_begin = order + rows_;

  std::copy(ids.begin(), ids.end(), id);
  for (Index i = 0; i < rows_; i++) target[i] = (i + 1) % seq_ == 0 ? -1 : ids[static_cast<std::size_t>(i + 1)];

  std::iota(order, order + rows_, 0);
  std::stable_sort(order, order + rows_, [&](std::int32_t a, std::int32_t b) { return id[a] < id[b]; });
  segments_ = 0;
  for (Index i = 0; i < rows_; i++)
    if (i == 0 || id[order[i]] != id[order[i - 1]]) segment_begin[segments_++] = static_cast<std::int32_t>(i);
  segment_begin[segments_] = static_cast<std::int32_t>(rows_);

  check(cudaMemcpyAsync(device_.data(), host_.data(), host_.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice,
                        run_.stream));
}

}  // namespace spillway::model
