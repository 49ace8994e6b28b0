// fiber_shared.h - the shared memory of the block that runs, for the fiber build: on the heap, so that sanitizers see
// its bounds, and all NaN at first, so that reading what nobody wrote shows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <unordered_map>

namespace spillway::hostcuda {

class SharedMemory {
 public:
  // A new block begins.
  void begin(std::size_t dynamic_bytes);
  void* dynamic() { return dynamic_.data.get(); }
  // The block's array for this place in the code.
  void* array(const void* site, std::size_t bytes);

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Array {
    std::unique_ptr<void, Free> data;
    std::size_t bytes = 0;
    std::uint64_t block = 0;  // that it was poisoned for last
  };
  static void poison(Array& array, std::size_t bytes);

  std::uint64_t block_ = 0;  // counts them
  Array dynamic_;
  std::unordered_map<const void*, Array> arrays_;
};

}  // namespace spillway::hostcuda
