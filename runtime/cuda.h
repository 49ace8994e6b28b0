// cuda.h - the RAII face of the CUDA runtime: the check that turns a status into a typed exception, and owners for
// streams, events and the cuBLAS handle. The calls themselves are CUDA's own, by their own names, everywhere else.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <source_location>
#include <string>
#include <utility>

#include "runtime/error.h"

namespace spillway {

// A CUDA call failed. code() is the cudaError_t, the message names call site, error name and CUDA's description.
class CudaError : public Error {
 public:
  CudaError(cudaError_t code, std::string message) : Error(std::move(message)), code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

// Throws CudaError unless `status` is cudaSuccess. Also clears CUDA's non-sticky last error.
void check(cudaError_t status, std::source_location where = std::source_location::current());
void check(cublasStatus_t status, std::source_location where = std::source_location::current());

// The device that will run, or Error in one line: error 35 (no driver) and 100 (no device) read alike.
struct DeviceInfo {
  std::string name;
  std::int64_t memory_bytes = 0;  // total
  int compute_major = 0, compute_minor = 0;
  int runtime_version = 0, driver_version = 0;  // 13000 = 13.0; driver 0 where there is none (host)
  bool is_host = false;                         // hostcuda stands under the program
};
DeviceInfo require_device();

// A non-blocking stream (no implicit order with the legacy stream). `name` is for whoever reads the code.
class Stream {
 public:
  explicit Stream(std::string name);
  ~Stream();
  Stream(Stream&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)), name_(std::move(o.name_)) {}
  Stream& operator=(Stream&&) = delete;
  cudaStream_t get() const { return handle_; }
  const std::string& name() const { return name_; }
  void synchronize() const { check(cudaStreamSynchronize(handle_)); }

 private:
  cudaStream_t handle_ = nullptr;
  std::string name_;
};

class Event {
 public:
  enum class Timing { off, on };
  explicit Event(Timing timing = Timing::off);
  ~Event();
  Event(Event&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
  Event& operator=(Event&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  cudaEvent_t get() const { return handle_; }
  void record(cudaStream_t stream) { check(cudaEventRecord(handle_, stream)); }
  void synchronize() const { check(cudaEventSynchronize(handle_)); }

 private:
  cudaEvent_t handle_ = nullptr;
};

// Milliseconds on the device's clock between two recorded, finished events made with Timing::on.
float elapsed_ms(const Event& start, const Event& stop);

// A cuBLAS handle bound to one stream, in default math (fp32 stays fp32) unless told otherwise.
class Cublas {
 public:
  explicit Cublas(cudaStream_t stream, cublasMath_t math = CUBLAS_DEFAULT_MATH);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace spillway
