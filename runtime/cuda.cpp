// cuda.cpp - see cuda.h.
#include "runtime/cuda.h"

#include <fmt/format.h>

#include <string_view>

namespace spillway {
namespace {

// "model/head.cpp:72": files are compiled by their paths from the repository's root, headers by "./" and those.
std::string place(const std::source_location& where) {
  std::string_view file = where.file_name();
  if (file.starts_with("./")) file.remove_prefix(2);
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace

void check(cudaError_t status, std::source_location where) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice)
    throw CudaError(status, fmt::format("no GPU answers ({}: {}): this program needs an NVIDIA GPU and its driver; "
                                        "build with DEVICE=host to run without one",
                                        cudaGetErrorName(status), cudaGetErrorString(status)));
  throw CudaError(
      status, fmt::format("CUDA at {}: {}: {}", place(where), cudaGetErrorName(status), cudaGetErrorString(status)));
}

void check(cublasStatus_t status, std::source_location where) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(
        fmt::format("cuBLAS at {}: {}: {}", place(where), cublasGetStatusName(status), cublasGetStatusString(status)));
}

DeviceInfo require_device() {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  if (count == 0) check(cudaErrorNoDevice);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0));
  DeviceInfo info;
  info.name = properties.name;
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  check(cudaRuntimeGetVersion(&info.runtime_version));
  check(cudaDriverGetVersion(&info.driver_version));
#ifdef SPILLWAY_HOST
  info.is_host = true;
#endif
  return info;
}

Stream::Stream(std::string name) : name_(std::move(name)) {
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
}
Stream::~Stream() {
  if (handle_) cudaStreamDestroy(handle_);
}

Event::Event(Timing timing) {
  check(cudaEventCreateWithFlags(&handle_, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming));
}
Event::~Event() {
  if (handle_) cudaEventDestroy(handle_);
}

float elapsed_ms(const Event& start, const Event& stop) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start.get(), stop.get()));
  return ms;
}

Cublas::Cublas(cudaStream_t stream, cublasMath_t math) {
  check(cublasCreate(&handle_));
  cublasStatus_t status = cublasSetStream(handle_, stream);
  if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetMathMode(handle_, math);
  if (status != CUBLAS_STATUS_SUCCESS) {
    cublasDestroy(handle_);
    check(status);
  }
}
Cublas::~Cublas() {
  if (handle_) cublasDestroy(handle_);
}

}  // namespace spillway
