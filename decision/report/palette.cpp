// palette.cpp - see palette.h.
#include "decision/report/palette.h"

#include <algorithm>

namespace spillway::decision {

std::string category_name(std::size_t category) {
  std::string name = kMemoryCategories[category];
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::size_t category_index(const std::string& name) {
  return static_cast<std::size_t>(std::find(kMemoryCategories.begin(), kMemoryCategories.end(), name) -
                                  kMemoryCategories.begin());
}

}  // namespace spillway::decision
