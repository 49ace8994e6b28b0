// palette.h - which class, and so which colour, means what in every chart: the seven categories of memory, and what a
// step does. The style sheet (style.cpp) has the colours.
#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "runtime/memory/category.h"

namespace spillway::decision {

// As records name them, in the order of a stack from below: what always stands there first.
inline constexpr const std::array<const char*, memory::kCategories>& kMemoryCategories = memory::kCategoryNames;
inline std::string category_css(std::size_t category) {
  return "m" + std::to_string(category);
}
// "offload staging"
std::string category_name(std::size_t category);
std::size_t category_index(const std::string& name);  // kCategories: none of them

}  // namespace spillway::decision
