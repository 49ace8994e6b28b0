// activity_buffers.h - the memory that CUPTI fills with records. CUPTI asks for a buffer and gives it back filled, from
// whichever thread it likes, several at once; each is aligned memory of the C library's, owned here from first to last.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace spillway::profiler {

class ActivityBuffers {
 public:
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };
  struct Filled {
    std::unique_ptr<std::uint8_t, Free> data;
    std::size_t bytes = 0;  // of records
  };

  // Null when the host has no memory left: CUPTI drops records then, and counts them.
  std::uint8_t* give(std::size_t& bytes);
  // A buffer of ours, with so many bytes of records; any other is ignored.
  void take_back(std::uint8_t* buffer, std::size_t valid_bytes);
  // What has come back, in order; it is the caller's now.
  std::vector<Filled> take_filled();

 private:
  std::mutex mutex_;  // never held while CUPTI is called
  std::map<std::uint8_t*, std::unique_ptr<std::uint8_t, Free>> given_;
  std::vector<Filled> filled_;
};

}  // namespace spillway::profiler
