// memory.h - whose memory an address is: what copies (copy.cpp) ask of the books that cudaMalloc and cudaMallocHost
// keep (memory.cpp).
#pragma once
#include <cstddef>

namespace spillway::hostcuda {

enum class Owner {
  device,    // within one allocation of cudaMalloc
  pinned,    // within one allocation of cudaMallocHost
  pageable,  // any other memory of the host
  nobody,    // partly within an allocation and partly beyond it
};
// Of the bytes [p, p + bytes), bytes > 0.
Owner owner_of(const void* p, std::size_t bytes);

}  // namespace spillway::hostcuda
