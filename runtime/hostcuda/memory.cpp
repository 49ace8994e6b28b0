// memory.cpp - the device's memory: a budget that cudaMalloc hands out until it is gone, page-locked host memory known
// by its addresses, and copies with the semantics that CUDA documents for pinned and pageable memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/stream.h"

namespace spillway::hostcuda {
namespace {

constexpr std::size_t kAlignment = 512;  // what cudaMalloc promises is 256; segments are cut at 512

struct Region {
  std::size_t bytes = 0;
  bool mapped = false;  // by mmap, else by the C library
};

struct Memory {
  std::mutex mutex;  // hosts only: no stream's thread takes it
  std::size_t total = 0, used = 0;
  std::map<std::uintptr_t, Region> device, pinned;
};

// Three quarters of what the machine has to spare.
std::size_t default_total() {
  std::ifstream info("/proc/meminfo");
  std::string word;
  for (std::size_t kib = 0; info >> word;)
    if (word == "MemAvailable:" && info >> kib) return kib / 4 * 3 * 1024;
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

Memory& memory() {
  static Memory m;
  if (m.total == 0) m.total = default_total();
  return m;
}

// Memory of the host for `bytes`, or null. Books-only memory is address space that nothing may touch.
void* obtain(std::size_t bytes, Region& region) {
  region.bytes = bytes;
#if !defined(__SANITIZE_ADDRESS__)  // which sees the bounds of what the C library gave, not of mappings
  constexpr std::size_t kMapFrom = 1 << 20;
  if (books_only() || bytes >= kMapFrom) {
    void* p = ::mmap(nullptr, bytes, books_only() ? PROT_NONE : PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    if (!books_only()) ::madvise(p, bytes, MADV_HUGEPAGE);  // fewer faults when it is first touched
    region.mapped = true;
    return p;
  }
#else
  if (books_only()) {
    void* p = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    region.mapped = true;
    return p == MAP_FAILED ? nullptr : p;
  }
#endif
  void* p = nullptr;
  return ::posix_memalign(&p, kAlignment, bytes) == 0 ? p : nullptr;
}

void give_back(std::uintptr_t address, const Region& region) {
  void* p = reinterpret_cast<void*>(address);
  if (region.mapped)
    ::munmap(p, region.bytes);
  else
    std::free(p);
}

// Whether [p, p + bytes) lies within one of the regions.
bool within(const std::map<std::uintptr_t, Region>& regions, const void* p, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto it = regions.upper_bound(address);
  if (it == regions.begin()) return false;
  --it;
  return address - it->first <= it->second.bytes && bytes <= it->second.bytes - (address - it->first);
}

bool is_device(const void* p, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  return within(memory().device, p, bytes);
}
bool is_pinned(const void* p, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  return within(memory().pinned, p, bytes);
}

}  // namespace

void set_device_memory(std::int64_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().total = static_cast<std::size_t>(bytes);
}
std::int64_t device_memory() {
  return static_cast<std::int64_t>(memory().total);
}

}  // namespace spillway::hostcuda

using namespace spillway::hostcuda;

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (const cudaError_t e = enter("cudaMalloc"); e != cudaSuccess) return e;
  if (!pointer) return answer(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (bytes > m.total || m.used > m.total - bytes) return answer(cudaErrorMemoryAllocation);
  Region region;
  void* p = obtain(bytes, region);
  if (!p) return answer(cudaErrorMemoryAllocation);
  m.device.emplace(reinterpret_cast<std::uintptr_t>(p), region);
  m.used += bytes;
  *pointer = p;
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (!pointer) return enter("cudaFree");
  const cudaError_t synchronized = cudaDeviceSynchronize();  // as CUDA's own does
  Memory& m = memory();
  Region region;
  {
    const std::lock_guard lock(m.mutex);
    const auto it = m.device.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (it == m.device.end()) return answer(cudaErrorInvalidValue);
    region = it->second;
    m.used -= region.bytes;
    m.device.erase(it);
  }
  give_back(reinterpret_cast<std::uintptr_t>(pointer), region);
  if (const cudaError_t e = enter("cudaFree"); e != cudaSuccess) return e;
  return synchronized;
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  if (const cudaError_t e = enter("cudaMallocHost"); e != cudaSuccess) return e;
  if (!pointer) return answer(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Region region;
  void* p = obtain(bytes, region);
  if (!p) return answer(cudaErrorMemoryAllocation);
  const std::lock_guard lock(memory().mutex);
  memory().pinned.emplace(reinterpret_cast<std::uintptr_t>(p), region);
  *pointer = p;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  if (!pointer) return enter("cudaFreeHost");
  const cudaError_t synchronized = cudaDeviceSynchronize();
  Memory& m = memory();
  Region region;
  {
    const std::lock_guard lock(m.mutex);
    const auto it = m.pinned.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (it == m.pinned.end()) return answer(cudaErrorInvalidValue);
    region = it->second;
    m.pinned.erase(it);
  }
  give_back(reinterpret_cast<std::uintptr_t>(pointer), region);
  if (const cudaError_t e = enter("cudaFreeHost"); e != cudaSuccess) return e;
  return synchronized;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (const cudaError_t e = enter("cudaMemGetInfo"); e != cudaSuccess) return e;
  if (!free_bytes || !total_bytes) return answer(cudaErrorInvalidValue);
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  *total_bytes = m.total;
  *free_bytes = m.total > m.used ? m.total - m.used : 0;
  return cudaSuccess;
}

// ---- copies
// -------------------------------------------------------------------------------------------------------------

// From pinned memory a copy is asynchronous. From pageable memory the bytes are staged before the call returns, and the
// host may change them then; to pageable memory the call returns when the copy is done.
// (CUDA Runtime API, "API synchronization behavior", Memcpy, Asynchronous.)
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const char* name = "cudaMemcpyAsync";
  if (bytes == 0) return enter(name);
  if (!to || !from) return answer(cudaErrorInvalidValue);
  switch (kind) {
    case cudaMemcpyDeviceToDevice:
      if (!is_device(to, bytes) || !is_device(from, bytes)) return answer(cudaErrorInvalidValue);
      return enqueue(name, stream, [=] { std::memcpy(to, from, bytes); });

    case cudaMemcpyHostToDevice: {
      if (!is_device(to, bytes)) return answer(cudaErrorInvalidValue);
      const auto copy = [=](const void* source) {
        std::memcpy(to, source, bytes);
        occupy_link(Link::to_device, bytes);
      };
      if (is_pinned(from, bytes)) return enqueue(name, stream, [=] { copy(from); });
      if (books_only()) return enter(name);
      const auto* first = static_cast<const std::byte*>(from);
      return enqueue(name, stream,
                     [copy, staged = std::vector<std::byte>(first, first + bytes)] { copy(staged.data()); });
    }

    case cudaMemcpyDeviceToHost: {
      if (!is_device(from, bytes)) return answer(cudaErrorInvalidValue);
      const cudaError_t queued = enqueue(name, stream, [=] {
        std::memcpy(to, from, bytes);
        occupy_link(Link::to_host, bytes);
      });
      if (queued != cudaSuccess || is_pinned(to, bytes)) return queued;
      return cudaStreamSynchronize(stream);
    }

    case cudaMemcpyHostToHost:
      break;
  }
  return answer(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t e = enter("cudaMemcpy"); e != cudaSuccess) return e;
  if (const cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, nullptr); e != cudaSuccess) return e;
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return enter("cudaMemsetAsync");
  if (!is_device(to, bytes)) return answer(cudaErrorInvalidValue);
  return enqueue("cudaMemsetAsync", stream, [=] { std::memset(to, value, bytes); });
}
