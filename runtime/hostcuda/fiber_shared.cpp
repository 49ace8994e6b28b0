// fiber_shared.cpp - see fiber_shared.h.
#include "runtime/hostcuda/fiber_shared.h"

#include <cstring>

#include "runtime/hostcuda/sanitizers.h"

namespace spillway::hostcuda {

void SharedMemory::poison(Array& array, std::size_t bytes) {
#if defined(SPILLWAY_ASAN) || defined(SPILLWAY_TSAN)
  const bool reuse = false;  // the sanitizers have to know the exact size, and to forget the last block's accesses
#else
  const bool reuse = bytes <= array.bytes;
#endif
  if (!reuse) {
    array.data.reset();
    if (bytes > 0) array.data.reset(std::malloc(bytes));
    array.bytes = bytes;
  }
  if (bytes > 0) std::memset(array.data.get(), 0xff, bytes);
}

void SharedMemory::begin(std::size_t dynamic_bytes) {
  ++block_;
  poison(dynamic_, dynamic_bytes);
}

void* SharedMemory::array(const void* site, std::size_t bytes) {
  Array& found = arrays_[site];
  if (found.block != block_) {
    found.block = block_;
    poison(found, bytes);
  }
  return found.data.get();
}

}  // namespace spillway::hostcuda
