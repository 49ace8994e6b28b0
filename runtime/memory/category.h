// category.h - what a piece of device memory is for. Every allocation declares one, so that a peak can be explained:
// after every event the categories sum to `allocated`.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway::memory {

enum class Category : std::uint8_t {
  parameter,
  gradient,         // of parameters
  optimizer_state,  // AdamW's two moments
  activation,       // tensors saved by the forward pass for the backward pass, wherever a plan places them
  logits,           // the head's logits chunk (overwritten by its gradient)
  workspace,        // gradients of activations and scratch: lives within a few operators
  offload_staging,  // device staging that exists only because a plan offloads
};
inline constexpr std::size_t kCategories = 7;
inline constexpr std::array<const char*, kCategories> kCategoryNames = {
    "parameter", "gradient", "optimizer_state", "activation", "logits", "workspace", "offload_staging"};
inline const char* to_string(Category c) {
  return kCategoryNames[static_cast<std::size_t>(c)];
}

using CategoryBytes = std::array<std::int64_t, kCategories>;

}  // namespace spillway::memory
