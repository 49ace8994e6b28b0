// call.cpp - see call.h: call counts, armed faults, and the two kinds of error. Most errors are told once, to the
// thread that made the call. A sticky one (a kernel that failed) means that the device's context is lost: every later
// call of every thread answers it.
#include "runtime/hostcuda/call.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/hostcuda/control.h"
#include "runtime/hostcuda/slowness.h"

namespace spillway::hostcuda {
namespace {

struct Fault {
  std::uint64_t at;  // the call's number
  cudaError_t error;
  bool sticky;
};

struct Function {
  std::uint64_t calls = 0;
  std::vector<Fault> faults;
};

// What can be called, and so what can be made to fail.
constexpr const char* kFunctions[] = {
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cublasGemmEx",
    "cudaDeviceGetAttribute",
    "cudaDeviceSynchronize",
    "cudaDriverGetVersion",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaEventElapsedTime",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaEventSynchronize",
    "cudaFree",
    "cudaFreeAsync",
    "cudaFreeHost",
    "cudaGetDevice",
    "cudaGetDeviceCount",
    "cudaGetDeviceProperties",
    "cudaGetDriverEntryPoint",
    "cudaLaunchHostFunc",
    "cudaLaunchKernel",
    "cudaMalloc",
    "cudaMallocFromPoolAsync",
    "cudaMallocHost",
    "cudaMemGetInfo",
    "cudaMemPoolCreate",
    "cudaMemPoolDestroy",
    "cudaMemPoolGetAttribute",
    "cudaMemPoolSetAttribute",
    "cudaMemPoolTrimTo",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "cudaRuntimeGetVersion",
    "cudaStreamCreateWithFlags",
    "cudaStreamDestroy",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
};

struct Calls {
  std::mutex mutex;
  std::map<std::string, Function, std::less<>> functions;
  std::string failure;
  Calls() {
    for (const char* name : kFunctions) functions.try_emplace(name);
  }
};
Calls& state() {
  static Calls& calls = *new Calls;  // never destroyed: owners in static storage make calls while the program ends
  return calls;
}

std::atomic<cudaError_t> g_sticky{cudaSuccess};
thread_local cudaError_t t_last = cudaSuccess;

// Counts the call; the error that it has to return.
cudaError_t enter(const char* function) {
  Calls& c = state();
  const std::lock_guard lock(c.mutex);
  Function& f = c.functions[function];
  const std::uint64_t number = ++f.calls;
  if (const cudaError_t lost = sticky_error(); lost != cudaSuccess) return answer(lost);
  const auto armed = std::find_if(f.faults.begin(), f.faults.end(), [=](const Fault& x) { return x.at == number; });
  if (armed == f.faults.end()) return cudaSuccess;
  const Fault fault = *armed;
  f.faults.erase(armed);
  if (fault.sticky) {
    g_sticky.store(fault.error, std::memory_order_relaxed);
    c.failure = std::string("armed fault of ") + function;
  }
  return answer(fault.error);
}

}  // namespace

Call::Call(const char* function) : record_(function), error_(enter(function)) {}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) t_last = error;
  note_result(error);
  return error;
}

std::uint32_t function_id(std::string_view name) {
  const auto* it = std::find(std::begin(kFunctions), std::end(kFunctions), name);
  return it == std::end(kFunctions) ? 0 : static_cast<std::uint32_t>(it - std::begin(kFunctions)) + 1;
}
const char* function_name(std::uint32_t id) {
  return id >= 1 && id <= std::size(kFunctions) ? kFunctions[id - 1] : nullptr;
}

cudaError_t sticky_error() {
  return g_sticky.load(std::memory_order_relaxed);
}

void fail_sticky(cudaError_t error, std::string reason) {
  Calls& c = state();
  const std::lock_guard lock(c.mutex);
  if (sticky_error() != cudaSuccess) return;
  c.failure = std::move(reason);
  g_sticky.store(error, std::memory_order_relaxed);
}

// ---- control --------------------------------------------------------------------------------------------------------

std::string last_failure() {
  Calls& c = state();
  const std::lock_guard lock(c.mutex);
  return c.failure;
}

void fail_call(std::string_view function, std::uint64_t k, cudaError_t error, bool sticky) {
  Calls& c = state();
  const std::lock_guard lock(c.mutex);
  const auto it = c.functions.find(function);
  if (it == c.functions.end()) {
    std::string names;
    for (const auto& [name, f] : c.functions) names += (names.empty() ? "" : ", ") + name;
    throw std::invalid_argument("'" + std::string(function) + "' is no function of the device; these are: " + names);
  }
  if (k == 0) throw std::invalid_argument(it->first + ": calls are counted from 1");
  it->second.faults.push_back({it->second.calls + k, error, sticky});
}

std::vector<std::string> pending_faults() {
  Calls& c = state();
  const std::lock_guard lock(c.mutex);
  std::vector<std::string> lines;
  for (const auto& [name, f] : c.functions)
    for (const Fault& fault : f.faults)
      lines.push_back(name + " was to fail at call " + std::to_string(fault.at) + "; it was called " +
                      std::to_string(f.calls) + " times");
  return lines;
}

std::uint64_t calls(std::string_view function) {
  Calls& c = state();
  const std::lock_guard lock(c.mutex);
  const auto it = c.functions.find(function);
  return it == c.functions.end() ? 0 : it->second.calls;
}

void reset_faults() {
  Calls& c = state();
  {
    const std::lock_guard lock(c.mutex);
    for (auto& [name, f] : c.functions) f.faults.clear();
    c.failure.clear();
    g_sticky.store(cudaSuccess, std::memory_order_relaxed);
  }
  t_last = cudaSuccess;
  reset_slowness();
}

}  // namespace spillway::hostcuda

// ---- CUDA's own -----------------------------------------------------------------------------------------------------

using namespace spillway::hostcuda;

cudaError_t cudaGetLastError() {
  const cudaError_t last = std::exchange(t_last, cudaSuccess);
  return sticky_error() != cudaSuccess ? sticky_error() : last;
}
