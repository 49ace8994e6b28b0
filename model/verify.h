// verify.h - the proof that this transformer is the transformer: loads a folder of Hugging Face weights, repeats on
// them what a float64 reference did (test/fixtures/tiny_qwen2: logits, every gradient, three AdamW steps), and prints
// the relative error of each tensor beside its tolerance.
#pragma once
#include <filesystem>
#include <iosfwd>
#include <string>

#include "runtime/memory/allocator.h"

namespace spillway::model {

struct VerifyOptions {
  std::string strategy = "baseline";
  std::int64_t lmhead_chunk = -1;  // as TrainerOptions
  double loss_tolerance = 1e-6;    // |x - golden| / |golden|
  double tensor_tolerance = 1e-5;  // ||x - golden|| / ||golden||
};

// `golden` holds tokens, eval_tokens (batch, seq), logits, losses (4), eval_loss, grad.<parameter> and
// after3.<parameter> for every parameter. Prints one line a comparison and a verdict; true when all are within
// tolerance. Error: a missing file or tensor, a shape that is not the model's.
bool verify(const std::filesystem::path& model_folder, const std::filesystem::path& golden,
            const VerifyOptions& options, memory::Allocator& allocator, std::ostream& out);

}  // namespace spillway::model
