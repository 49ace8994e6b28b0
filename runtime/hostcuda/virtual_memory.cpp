// virtual_memory.cpp - virtual memory management: addresses reserved once, pages of the device's memory mapped at them
// and unmapped again. A page costs the budget from its creation to its release; an unmapped address cannot be touched,
// so that whoever does faults, as on a GPU.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>

#include "runtime/hostcuda/call.h"
#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/memory.h"
#include "runtime/hostcuda/stream_queue.h"

using namespace spillway::hostcuda;

namespace {

constexpr std::uintptr_t kGranularity = 2 << 20;

struct Mapping {
  std::size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
};
struct Memory {
  std::mutex mutex;  // hosts only
  std::map<std::uintptr_t, std::size_t> ranges;
  std::map<std::uintptr_t, Mapping> mapped;
  std::map<CUmemGenericAllocationHandle, std::size_t> created;
  CUmemGenericAllocationHandle last = 0;
};
Memory& state() {
  static Memory& m = *new Memory;  // never destroyed, see call.cpp
  return m;
}

// The driver's codes are the runtime's where both have one.
CUresult driver(cudaError_t error) {
  return static_cast<CUresult>(error);
}
CUresult refuse() {
  return driver(answer(cudaErrorInvalidValue));
}
bool whole_pages(std::uintptr_t address, std::size_t bytes) {
  return bytes > 0 && bytes % kGranularity == 0 && address % kGranularity == 0;
}
void* pointer_of(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

// Whether [address, +bytes) lies in one reserved range.
bool reserved(const Memory& m, std::uintptr_t address, std::size_t bytes) {
  const auto after = m.ranges.upper_bound(address);
  if (after == m.ranges.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address + bytes <= begin + size;
}
bool touches_mapping(const Memory& m, std::uintptr_t address, std::size_t bytes) {
  const auto after = m.mapped.lower_bound(address + bytes);
  if (after == m.mapped.begin()) return false;
  const auto& [begin, mapping] = *std::prev(after);
  return begin + mapping.bytes > address;
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* pointer, std::size_t bytes, std::size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags) {
  const Call call("cuMemAddressReserve");
  if (call.error() != cudaSuccess) return driver(call.error());
  if (!pointer || !whole_pages(0, bytes) || (alignment != 0 && alignment != kGranularity) || wanted != 0 || flags != 0)
    return refuse();
  // One page more than asked for, for the alignment; what is too much goes back.
  void* p = ::mmap(nullptr, bytes + kGranularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return driver(answer(cudaErrorMemoryAllocation));
  const auto given = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t begin = (given + kGranularity - 1) / kGranularity * kGranularity;
  if (begin > given) ::munmap(p, begin - given);
  if (begin < given + kGranularity) ::munmap(pointer_of(begin + bytes), given + kGranularity - begin);
  const std::lock_guard lock(state().mutex);
  state().ranges.emplace(begin, bytes);
  add_device_range(pointer_of(begin), bytes);
  *pointer = begin;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, std::size_t bytes) {
  const Call call("cuMemAddressFree");
  const std::lock_guard lock(state().mutex);
  const auto range = state().ranges.find(pointer);
  if (range == state().ranges.end() || range->second != bytes || touches_mapping(state(), pointer, bytes))
    return refuse();
  state().ranges.erase(range);
  remove_device_range(pointer_of(pointer));
  ::munmap(pointer_of(pointer), bytes);
  return driver(call.error());
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  const Call call("cuMemCreate");
  if (call.error() != cudaSuccess) return driver(call.error());
  if (!handle || !whole_pages(0, bytes) || !properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id != 0 || flags != 0)
    return refuse();
  if (!take_budget(bytes)) return driver(answer(cudaErrorMemoryAllocation));
  const std::lock_guard lock(state().mutex);
  *handle = ++state().last;
  state().created.emplace(*handle, bytes);
  return CUDA_SUCCESS;
}

// CUDA keeps what is mapped until it is unmapped; nobody here releases before, so it is refused.
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Call call("cuMemRelease");
  const std::lock_guard lock(state().mutex);
  const auto created = state().created.find(handle);
  if (created == state().created.end()) return refuse();
  for (const auto& [address, mapping] : state().mapped)
    if (mapping.handle == handle) return refuse();
  return_budget(created->second);
  state().created.erase(created);
  return driver(call.error());
}

CUresult cuMemMap(CUdeviceptr pointer, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const Call call("cuMemMap");
  if (call.error() != cudaSuccess) return driver(call.error());
  const std::lock_guard lock(state().mutex);
  const auto created = state().created.find(handle);
  if (created == state().created.end() || created->second != bytes || offset != 0 || flags != 0 ||
      !whole_pages(pointer, bytes) || !reserved(state(), pointer, bytes) || touches_mapping(state(), pointer, bytes))
    return refuse();
  for (const auto& [address, mapping] : state().mapped)  // CUDA would let both address one memory; this cannot
    if (mapping.handle == handle) return refuse();
  state().mapped.emplace(pointer, Mapping{bytes, handle});
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
  const Call call("cuMemSetAccess");
  if (call.error() != cudaSuccess) return driver(call.error());
  const std::lock_guard lock(state().mutex);
  const auto mapping = state().mapped.find(pointer);
  if (mapping == state().mapped.end() || mapping->second.bytes != bytes || !access || count != 1 ||
      access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return refuse();
  if (!books_only() && ::mprotect(pointer_of(pointer), bytes, PROT_READ | PROT_WRITE) != 0)
    return driver(answer(cudaErrorMemoryAllocation));
  return CUDA_SUCCESS;
}

// The caller sees to it that nothing in a stream still uses the page; one who does not, faults.
CUresult cuMemUnmap(CUdeviceptr pointer, std::size_t bytes) {
  const Call call("cuMemUnmap");
  const std::lock_guard lock(state().mutex);
  const auto mapping = state().mapped.find(pointer);
  if (mapping == state().mapped.end() || mapping->second.bytes != bytes) return refuse();
  state().mapped.erase(mapping);
  ::mprotect(pointer_of(pointer), bytes, PROT_NONE);
  ::madvise(pointer_of(pointer), bytes, MADV_DONTNEED);
  return driver(call.error());
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  const Call call("cudaGetDriverEntryPoint");
  if (call.error() != cudaSuccess) return call.error();
  if (!symbol || !function || flags != cudaEnableDefault) return answer(cudaErrorInvalidValue);
  static const std::map<std::string_view, void*> kSymbols = {
      {"cuMemAddressFree", reinterpret_cast<void*>(&cuMemAddressFree)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&cuMemAddressReserve)},
      {"cuMemCreate", reinterpret_cast<void*>(&cuMemCreate)},
      {"cuMemMap", reinterpret_cast<void*>(&cuMemMap)},
      {"cuMemRelease", reinterpret_cast<void*>(&cuMemRelease)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&cuMemSetAccess)},
      {"cuMemUnmap", reinterpret_cast<void*>(&cuMemUnmap)},
  };
  const auto found = kSymbols.find(symbol);
  *function = found == kSymbols.end() ? nullptr : found->second;
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return *function ? cudaSuccess : answer(cudaErrorSymbolNotFound);
}
