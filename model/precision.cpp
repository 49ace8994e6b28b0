// precision.cpp - see precision.h.
#include "model/precision.h"

#include <fmt/format.h>

#include "kernels/bfloat16.h"

namespace spillway::model {

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::bfloat16:
      return "bfloat16";
    case Precision::tf32:
      return "tf32";
    case Precision::float32:
      break;
  }
  return "float32";
}

Precision parse_precision(const std::string& name) {
  if (name == "float32" || name == "fp32") return Precision::float32;
  if (name == "bfloat16" || name == "bf16") return Precision::bfloat16;
  if (name == "tf32") return Precision::tf32;
  throw Error(fmt::format("dtype '{}': float32 (fp32), bfloat16 (bf16), or tf32 on a GPU", name));
}

void check_precision(Precision precision, const DeviceInfo& device) {
  if (precision == Precision::float32) return;
  if (device.is_host && precision == Precision::tf32)
    throw Error("dtype tf32: a rounding of a GPU's tensor cores, which no processor has; float32 or bfloat16");
  constexpr int kFirstMajor = 8;  // tensor cores for bfloat16 and TF32 came with compute capability 8.0
  if (!device.is_host && device.compute_major < kFirstMajor)
    throw Error(fmt::format("dtype {}: needs compute capability 8.0, {} has {}.{}; float32 works", to_string(precision),
                            device.name, device.compute_major, device.compute_minor));
}

cublasMath_t math_mode(Precision precision) {
  switch (precision) {
    case Precision::bfloat16:
      return CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    case Precision::tf32:
      return CUBLAS_TF32_TENSOR_OP_MATH;
    case Precision::float32:
      break;
  }
  return CUBLAS_DEFAULT_MATH;
}

std::int64_t activation_bytes(Precision precision) {
  return precision == Precision::bfloat16 ? sizeof(kernels::bfloat16) : sizeof(float);
}

}  // namespace spillway::model
