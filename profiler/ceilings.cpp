// ceilings.cpp - see ceilings.h.
#include "profiler/ceilings.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/matmul.h"
#include "runtime/cuda.h"
#include "runtime/memory/device_memory.h"

namespace spillway::profiler {
namespace {

constexpr std::int64_t kCopyBytes = std::int64_t{64} << 20;
// Large enough to fill a GPU's units; a processor needs less, and has less.
constexpr std::int64_t kGpuOrder = 4096, kHostOrder = 768;

// Device memory for one measurement; empty when there is none.
class Scratch {
 public:
  explicit Scratch(std::int64_t bytes) : bytes_(bytes), data_(device_.allocate(bytes)) {}
  ~Scratch() {
    if (data_) device_.release(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  memory::CudaDeviceMemory device_;
  std::int64_t bytes_;
  void* data_;
};

class Pinned {
 public:
  explicit Pinned(std::int64_t bytes) {
    if (cudaMallocHost(&data_, static_cast<std::size_t>(bytes)) != cudaSuccess) {
      data_ = nullptr;
      cudaGetLastError();
    }
  }
  ~Pinned() {
    if (data_) cudaFreeHost(data_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

constexpr int kRuns = 8;

// Seconds of one run of `work`: the median of the faster half of a few, after one that does not count.
double best_seconds(const Stream& stream, const std::function<void()>& work, int runs = kRuns) {
  Event start(Event::Timing::on), stop(Event::Timing::on);
  std::vector<double> seconds;
  for (int i = 0; i <= runs; ++i) {
    start.record(stream.get());
    work();
    stop.record(stream.get());
    stream.synchronize();
    if (i > 0) seconds.push_back(static_cast<double>(elapsed_ms(start, stop)) / 1e3);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[static_cast<std::size_t>(runs) / 4];
}

// As many bytes as take some tens of milliseconds: a link may be a thousand times slower than another.
std::optional<double> copy_gbs(const Stream& stream, void* to, const void* from, cudaMemcpyKind kind,
                               double times_moved) {
  if (!to || !from) return std::nullopt;
  const auto seconds = [&](std::int64_t bytes, int runs) {
    const auto copy = [&] { check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream.get())); };
    return best_seconds(stream, copy, runs);
  };
  constexpr std::int64_t kProbeBytes = 256 << 10;
  constexpr double kEnoughSeconds = 0.02;
  const double fit = kEnoughSeconds / seconds(kProbeBytes, 1) * static_cast<double>(kProbeBytes);
  const std::int64_t bytes =
      std::clamp(static_cast<std::int64_t>(std::min(fit, static_cast<double>(kCopyBytes))), kProbeBytes, kCopyBytes);
  return times_moved * static_cast<double>(bytes) / seconds(bytes, kRuns) / 1e9;
}

template <class T>
std::optional<double> product_tflops(const Stream& stream, CeilingType type) {
  const std::int64_t n = require_device().is_host ? kHostOrder : kGpuOrder;
  const std::int64_t bytes = n * n * std::int64_t{sizeof(T)};
  const Scratch a(bytes), b(bytes), c(bytes);
  if (!a.data() || !b.data() || !c.data()) return std::nullopt;
  for (const Scratch* x : {&a, &b}) check(cudaMemsetAsync(x->data(), 0, static_cast<std::size_t>(bytes), stream.get()));
  const Cublas cublas(stream.get(), type == CeilingType::tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH);
  const double seconds = best_seconds(stream, [&] {
    kernels::matmul(cublas.get(), kernels::Transpose::no, kernels::Transpose::yes, n, n, n,
                    reinterpret_cast<const T*>(a.data()), reinterpret_cast<const T*>(b.data()), 0.f,
                    reinterpret_cast<T*>(c.data()), stream.get());
  });
  const double order = static_cast<double>(n);
  return 2 * order * order * order / seconds / 1e12;
}

}  // namespace

Ceilings measure_ceilings(CeilingType type) {
  const Stream stream("ceilings");
  Ceilings best;
  best.tflops = type == CeilingType::bfloat16 ? product_tflops<kernels::bfloat16>(stream, type)
                                              : product_tflops<float>(stream, type);
  const Scratch from(kCopyBytes), to(kCopyBytes);
  const Pinned host(kCopyBytes);
  best.memory_gbs = copy_gbs(stream, to.data(), from.data(), cudaMemcpyDeviceToDevice, 2);
  best.host_to_device_gbs = copy_gbs(stream, to.data(), host.data(), cudaMemcpyHostToDevice, 1);
  best.device_to_host_gbs = copy_gbs(stream, host.data(), from.data(), cudaMemcpyDeviceToHost, 1);
  return best;
}

}  // namespace spillway::profiler
