// device_batch.h - a step's tokens as the device needs them: the ids, each position's target (the next token of its
// row; none for the last), and the positions sorted by id, so that the embedding's gradient is summed in a fixed order
// without atomics. One buffer on the device, allocated once and filled by one copy a step.
#pragma once
#include <vector>

#include "data/tokens.h"
#include "model/execution.h"

namespace spillway::model {

class DeviceBatch {
 public:
  DeviceBatch(Index batch, Index seq, Index vocab, const Execution& run);

  // Error when the shape is not the trainer's or an id is outside the vocabulary; then nothing is uploaded.
  void upload(const data::TokenBatch& tokens);

  const std::int32_t* ids() const { return device_.data(); }                        // (N)
  const std::int32_t* targets() const { return device_.data() + rows_; }            // (N), -1: not predicted
  const std::int32_t* order() const { return device_.data() + 2 * rows_; }          // (N), by (id, position)
  const std::int32_t* segment_begin() const { return device_.data() + 3 * rows_; }  // (segments + 1), into order
  Index rows() const { return rows_; }                                              // N = batch * seq
  Index segments() const { return segments_; }                                      // distinct ids
  Index predicted() const { return batch_ * (seq_ - 1); }                           // positions with a target

 private:
  Index batch_, seq_, vocab_, rows_, segments_ = 0;
  Execution run_;
  // Pageable, so the copy has left it when cudaMemcpyAsync returns, and the next upload may overwrite it.
  std::vector<std::int32_t> host_;
  Tensor<std::int32_t> device_;
};

}  // namespace spillway::model
