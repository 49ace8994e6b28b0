// precision.h - what a step computes in. float32: everything. bfloat16 is mixed precision as PyTorch's autocast has it:
// matrix products of bfloat16 operands and saved activations in bfloat16; weights, their gradients and the optimizer's
// states stay float, and so do norms, softmax statistics and the loss inside their kernels. tf32: float everywhere, but
// a GPU's tensor cores round what they multiply to TF32.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/cuda.h"

namespace spillway::model {

enum class Precision : std::uint8_t { float32, bfloat16, tf32 };

const char* to_string(Precision precision);  // "float32", "bfloat16", "tf32"
// From those names, or fp32 and bf16. Error: anything else.
Precision parse_precision(const std::string& name);
// Error, in one line, when this device cannot do it.
void check_precision(Precision precision, const DeviceInfo& device);
// How cuBLAS computes for it. In bfloat16 it may not round partial sums of a product to bfloat16 before it adds them
// up, as it would by itself where it splits a long sum.
cublasMath_t math_mode(Precision precision);
// Bytes of an activation.
std::int64_t activation_bytes(Precision precision);

}  // namespace spillway::model
