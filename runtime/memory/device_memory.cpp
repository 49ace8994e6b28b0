// device_memory.cpp - CUDA's three ways to have memory: see device_memory.h.
#include "runtime/memory/device_memory.h"

#include <cuda.h>
#include <fmt/format.h>

#include <bit>
#include <map>
#include <stdexcept>

#include "runtime/cuda.h"

namespace spillway::memory {

// ---- what a device need not have ------------------------------------------------------------------------------------

namespace {
[[noreturn]] void has_none(const char* what) {
  throw std::logic_error(fmt::format("this device memory has no {}", what));
}
}  // namespace

std::unique_ptr<DeviceMemory::Mark> DeviceMemory::mark(cudaStream_t) {
  has_none("marks");
}
void DeviceMemory::order(cudaStream_t, cudaStream_t) {
  has_none("order of streams");
}
void* DeviceMemory::reserve_addresses(std::int64_t) {
  has_none("addresses to reserve");
}
void DeviceMemory::release_addresses(void*, std::int64_t) noexcept {}
bool DeviceMemory::map_page(void*) {
  has_none("pages");
}
void DeviceMemory::unmap_page(void*) noexcept {}
void* DeviceMemory::allocate_async(std::int64_t, cudaStream_t) {
  has_none("stream-ordered pool");
}
void DeviceMemory::release_async(void*, cudaStream_t) noexcept {}
std::int64_t DeviceMemory::pool_reserved() {
  has_none("stream-ordered pool");
}
void DeviceMemory::trim_pool() {}

// ---- segments -------------------------------------------------------------------------------------------------------

void* CudaDeviceMemory::allocate(std::int64_t bytes) {
  void* segment = nullptr;
  const cudaError_t status = cudaMalloc(&segment, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is answered here: the next check must not find it
    return nullptr;
  }
  check(status);
  return segment;
}

// A failure here can only be an earlier kernel's, which the next checked call reports.
void CudaDeviceMemory::release(void* segment, std::int64_t) noexcept {
  cudaFree(segment);
}

DeviceMemory::Info CudaDeviceMemory::info() const {
  std::size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes));
  return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes)};
}

// ---- order ----------------------------------------------------------------------------------------------------------

void CudaDeviceMemory::synchronize() {
  check(cudaDeviceSynchronize());
}

namespace {
class EventMark final : public DeviceMemory::Mark {
 public:
  explicit EventMark(cudaStream_t stream) { event_.record(stream); }
  bool reached() override {
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    check(status);
    return true;
  }
  void wait() override { event_.synchronize(); }

 private:
  Event event_;
};
}  // namespace

std::unique_ptr<DeviceMemory::Mark> CudaDeviceMemory::mark(cudaStream_t stream) {
  return std::make_unique<EventMark>(stream);
}

// The event may go at once: CUDA keeps it until the wait is done.
void CudaDeviceMemory::order(cudaStream_t before, cudaStream_t after) {
  Event event;
  event.record(before);
  check(cudaStreamWaitEvent(after, event.get(), 0));
}

// ---- pages ----------------------------------------------------------------------------------------------------------

// The driver's calls, asked for by name through the runtime: the program never links libcuda, so that it starts on
// machines without a driver.
struct CudaDeviceMemory::Pages {
  decltype(&cuMemAddressReserve) address_reserve = nullptr;
  decltype(&cuMemAddressFree) address_free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  CUmemAllocationProp properties{};
  CUmemAccessDesc access{};
  std::map<void*, CUmemGenericAllocationHandle> handles;  // of every mapped page

  Pages() {
    find("cuMemAddressReserve", address_reserve);
    find("cuMemAddressFree", address_free);
    find("cuMemCreate", create);
    find("cuMemRelease", release);
    find("cuMemMap", map);
    find("cuMemUnmap", unmap);
    find("cuMemSetAccess", set_access);
    int device = 0;
    check(cudaGetDevice(&device));
    check(cudaFree(nullptr));  // makes the context that the driver's calls run in
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }

  template <class F>
  static void find(const char* name, F& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
#else
    check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result));
#endif
    if (result != cudaDriverEntryPointSuccess || !found)
      throw CudaError(cudaErrorSymbolNotFound,
                      fmt::format("the driver has no {}: virtual memory needs a newer one", name));
    function = reinterpret_cast<F>(found);
  }
  static void demand(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS)  // the runtime has the driver's codes
      throw CudaError(static_cast<cudaError_t>(result),
                      fmt::format("{}: the driver answers {}", what, static_cast<int>(result)));
  }
};

void* CudaDeviceMemory::reserve_addresses(std::int64_t bytes) {
  if (!pages_) pages_ = std::make_unique<Pages>();
  CUdeviceptr address = 0;
  Pages::demand(
      pages_->address_reserve(&address, static_cast<std::size_t>(bytes), static_cast<std::size_t>(kPage), 0, 0),
      "cuMemAddressReserve");
  return std::bit_cast<void*>(address);
}

void CudaDeviceMemory::release_addresses(void* addresses, std::int64_t bytes) noexcept {
  pages_->address_free(reinterpret_cast<CUdeviceptr>(addresses), static_cast<std::size_t>(bytes));
}

bool CudaDeviceMemory::map_page(void* page) {
  Pages& p = *pages_;
  constexpr auto kBytes = static_cast<std::size_t>(kPage);
  const auto address = reinterpret_cast<CUdeviceptr>(page);
  CUmemGenericAllocationHandle& handle = p.handles[page];
  const CUresult created = p.create(&handle, kBytes, &p.properties, 0);
  if (created != CUDA_SUCCESS) {
    p.handles.erase(page);
    if (created == CUDA_ERROR_OUT_OF_MEMORY) return false;
    Pages::demand(created, "cuMemCreate");
  }
  CUresult result = p.map(address, kBytes, 0, handle, 0);
  if (result == CUDA_SUCCESS) {
    result = p.set_access(address, kBytes, &p.access, 1);
    if (result != CUDA_SUCCESS) p.unmap(address, kBytes);
  }
  if (result == CUDA_SUCCESS) return true;
  p.release(handle);
  p.handles.erase(page);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return false;
  Pages::demand(result, "cuMemMap");
  return false;
}

void CudaDeviceMemory::unmap_page(void* page) noexcept {
  const auto found = pages_->handles.find(page);
  pages_->unmap(reinterpret_cast<CUdeviceptr>(page), static_cast<std::size_t>(kPage));
  pages_->release(found->second);
  pages_->handles.erase(found);
}

// ---- the driver's pool ----------------------------------------------------------------------------------------------

struct CudaDeviceMemory::Pool {
  cudaMemPool_t handle = nullptr;
  Pool() {
    int device = 0, supported = 0;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device));
    if (!supported) throw Error("this device has no memory pools: stream-ordered allocation needs them");
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device};
    check(cudaMemPoolCreate(&handle, &properties));
    try {
      configure();
    } catch (...) {
      cudaMemPoolDestroy(handle);
      throw;
    }
  }
  ~Pool() { cudaMemPoolDestroy(handle); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  void configure() {
    std::uint64_t keep_all = ~std::uint64_t{0};
    check(cudaMemPoolSetAttribute(handle, cudaMemPoolAttrReleaseThreshold, &keep_all));
    // Else what a stream gets would depend on how far another one is just now, and no two runs need the same memory.
    int off = 0;
    for (const cudaMemPoolAttr reuse : {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
                                        cudaMemPoolReuseAllowInternalDependencies})
      check(cudaMemPoolSetAttribute(handle, reuse, &off));
  }
};

void* CudaDeviceMemory::allocate_async(std::int64_t bytes, cudaStream_t stream) {
  if (!pool_) pool_ = std::make_unique<Pool>();
  void* memory = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&memory, static_cast<std::size_t>(bytes), pool_->handle, stream);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status);
  return memory;
}

void CudaDeviceMemory::release_async(void* memory, cudaStream_t stream) noexcept {
  cudaFreeAsync(memory, stream);
}

std::int64_t CudaDeviceMemory::pool_reserved() {
  if (!pool_) return 0;
  std::uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(pool_->handle, cudaMemPoolAttrReservedMemCurrent, &bytes));
  return static_cast<std::int64_t>(bytes);
}

void CudaDeviceMemory::trim_pool() {
  if (!pool_) return;
  check(cudaDeviceSynchronize());
  check(cudaMemPoolTrimTo(pool_->handle, 0));
}

CudaDeviceMemory::CudaDeviceMemory() = default;
CudaDeviceMemory::~CudaDeviceMemory() = default;

}  // namespace spillway::memory
