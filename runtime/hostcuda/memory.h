// memory.h - the books of the device's memory that memory.cpp keeps for everybody: whose memory an address is, which
// copies (copy.cpp) ask; and the one budget, from which cudaMalloc, mapped pages (virtual_memory.cpp) and memory pools
// (memory_pool.cpp) all take.
#pragma once
#include <cstddef>

namespace spillway::hostcuda {

enum class Owner {
  device,    // within one allocation of cudaMalloc, one chunk of a pool or one range of addresses
  pinned,    // within one allocation of cudaMallocHost
  pageable,  // any other memory of the host
  nobody,    // partly within an allocation and partly beyond it
};
// Of the bytes [p, p + bytes), bytes > 0.
Owner owner_of(const void* p, std::size_t bytes);

// False when the device has not that much left.
bool take_budget(std::size_t bytes);
void return_budget(std::size_t bytes);
// Device memory that is not cudaMalloc's: known to copies, and not cudaFree's to free.
void add_device_range(const void* p, std::size_t bytes);
void remove_device_range(const void* p);

}  // namespace spillway::hostcuda
