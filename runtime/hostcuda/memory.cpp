// memory.cpp - the device's memory: a budget that cudaMalloc hands out to the byte until it is gone; and page-locked
// host memory, known by its addresses.
#include "runtime/hostcuda/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/stream_queue.h"

namespace spillway::hostcuda {
namespace {

constexpr std::size_t kAlignment = 512;  // what cudaMalloc promises is 256; segments are cut at 512
constexpr std::size_t kMapFrom = 1 << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMapLarge = false;  // AddressSanitizer sees the bounds of what the C library gave, not of mappings
#else
constexpr bool kMapLarge = true;
#endif

// Memory of the machine under one allocation.
struct Region {
  std::size_t bytes = 0;
  bool mapped = false;  // by mmap, else by the C library
  bool ours = true;     // to give back; not ours: of virtual_memory.cpp or memory_pool.cpp
};
using Regions = std::map<std::uintptr_t, Region>;

// Three quarters of what the machine has to spare.
std::size_t default_total() {
  std::ifstream info("/proc/meminfo");
  std::string word;
  for (std::size_t kib = 0; info >> word;)
    if (word == "MemAvailable:" && info >> kib) return kib / 4 * 3 * 1024;
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

struct Memory {
  std::mutex mutex;  // hosts only
  std::size_t total = default_total(), used = 0;
  Regions device, pinned;
};
Memory& memory() {
  static Memory& m = *new Memory;  // never destroyed, see call.cpp
  return m;
}

// Null when the machine has no more.
void* map(std::size_t bytes, int protection) {
  void* p = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void* obtain(std::size_t bytes, bool device, Region& region) {
  region.bytes = bytes;
  region.mapped = books_only() || (kMapLarge && bytes >= kMapFrom);
  if (!region.mapped) {
    void* p = nullptr;
    return ::posix_memalign(&p, kAlignment, bytes) == 0 ? p : nullptr;
  }
  // Of a device of books, only addresses exist. Pinned memory is the host's to touch in any mode.
  if (books_only()) return map(bytes, device ? PROT_NONE : PROT_READ | PROT_WRITE);
  void* p = map(bytes, PROT_READ | PROT_WRITE);
  if (p) ::madvise(p, bytes, MADV_HUGEPAGE);  // fewer faults when it is first touched
  return p;
}

void give_back(void* p, const Region& region) {
  if (region.mapped)
    ::munmap(p, region.bytes);
  else
    std::free(p);
}

// Removes the allocation that begins at p. False when there is none.
bool forget(Regions& regions, void* p, Region& region) {
  const auto it = regions.find(reinterpret_cast<std::uintptr_t>(p));
  if (it == regions.end() || !it->second.ours) return false;
  region = it->second;
  regions.erase(it);
  return true;
}

enum class Overlap { none, partly, whole };
Overlap overlap(const Regions& regions, const void* p, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(p), end = begin + bytes;
  const auto after = regions.lower_bound(end);  // the regions before it begin before `end`
  if (after == regions.begin()) return Overlap::none;
  const auto& [address, region] = *std::prev(after);
  if (address + region.bytes <= begin) return Overlap::none;
  return address <= begin && end <= address + region.bytes ? Overlap::whole : Overlap::partly;
}

}  // namespace

Owner owner_of(const void* p, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const Overlap device = overlap(memory().device, p, bytes), pinned = overlap(memory().pinned, p, bytes);
  if (device == Overlap::whole) return Owner::device;
  if (pinned == Overlap::whole) return Owner::pinned;
  return device == Overlap::none && pinned == Overlap::none ? Owner::pageable : Owner::nobody;
}

bool take_budget(std::size_t bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (bytes > m.total || m.used > m.total - bytes) return false;
  m.used += bytes;
  return true;
}
void return_budget(std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().used -= bytes;
}
void add_device_range(const void* p, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().device.emplace(reinterpret_cast<std::uintptr_t>(p), Region{bytes, true, false});
}
void remove_device_range(const void* p) {
  const std::lock_guard lock(memory().mutex);
  memory().device.erase(reinterpret_cast<std::uintptr_t>(p));
}

void set_device_memory(std::int64_t bytes) {
  if (bytes < 0)
    throw std::invalid_argument("device memory of " + std::to_string(bytes) + " bytes: must not be negative");
  const std::lock_guard lock(memory().mutex);
  memory().total = static_cast<std::size_t>(bytes);
}
std::int64_t device_memory() {
  const std::lock_guard lock(memory().mutex);
  return static_cast<std::int64_t>(memory().total);
}

}  // namespace spillway::hostcuda

using namespace spillway::hostcuda;

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  const Call call("cudaMalloc");
  if (call.error() != cudaSuccess) return call.error();
  if (!pointer) return answer(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (bytes > m.total || m.used > m.total - bytes) return answer(cudaErrorMemoryAllocation);
  Region region;
  void* p = obtain(bytes, true, region);
  if (!p) return answer(cudaErrorMemoryAllocation);
  m.device.emplace(reinterpret_cast<std::uintptr_t>(p), region);
  m.used += bytes;
  record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, p, bytes);
  *pointer = p;
  return cudaSuccess;
}

// Freeing waits for the whole device, as CUDA's own does.
cudaError_t cudaFree(void* pointer) {
  const Call call("cudaFree");
  if (!pointer) return call.error();
  drain_all_streams();
  Memory& m = memory();
  Region region;
  {
    const std::lock_guard lock(m.mutex);
    if (!forget(m.device, pointer, region)) return answer(cudaErrorInvalidValue);
    m.used -= region.bytes;
  }
  record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, pointer, region.bytes);
  give_back(pointer, region);
  return call.error() != cudaSuccess ? call.error() : answer(sticky_error());
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  const Call call("cudaMallocHost");
  if (call.error() != cudaSuccess) return call.error();
  if (!pointer) return answer(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Region region;
  void* p = obtain(bytes, false, region);
  if (!p) return answer(cudaErrorMemoryAllocation);
  const std::lock_guard lock(memory().mutex);
  memory().pinned.emplace(reinterpret_cast<std::uintptr_t>(p), region);
  record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_KIND_PINNED, p, bytes);
  *pointer = p;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  const Call call("cudaFreeHost");
  if (!pointer) return call.error();
  drain_all_streams();
  Region region;
  {
    const std::lock_guard lock(memory().mutex);
    if (!forget(memory().pinned, pointer, region)) return answer(cudaErrorInvalidValue);
  }
  record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, CUPTI_ACTIVITY_MEMORY_KIND_PINNED, pointer, region.bytes);
  give_back(pointer, region);
  return call.error() != cudaSuccess ? call.error() : answer(sticky_error());
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const Call call("cudaMemGetInfo");
  if (call.error() != cudaSuccess) return call.error();
  if (!free_bytes || !total_bytes) return answer(cudaErrorInvalidValue);
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  *total_bytes = m.total;
  *free_bytes = m.total > m.used ? m.total - m.used : 0;
  return cudaSuccess;
}
