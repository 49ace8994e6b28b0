// fake_device.h - device memory that exists only as addresses: a policy is tested without a device, failures are
// chosen, and so is which stream is how far with its work.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/memory/device_memory.h"

namespace spillway::test {

class FakeDevice final : public memory::DeviceMemory {
 public:
  explicit FakeDevice(std::int64_t total = std::int64_t{1} << 40) : total_(total) {}

  void* allocate(std::int64_t bytes) override {
    ++calls;
    demand_context();
    const bool fails = fail_at == calls || bytes > total_ - used_;
    told += fails ? "no " : "allocate ";
    if (fails) return nullptr;
    const std::int64_t address = next_;
    next_ += bytes + kGap;
    used_ += bytes;
    live.emplace(address, bytes);
    return reinterpret_cast<void*>(address);
  }
  void release(void* segment, std::int64_t bytes) noexcept override {
    used_ -= bytes;
    ++releases;
    told += "release ";
    live.erase(reinterpret_cast<std::int64_t>(segment));
  }
  void synchronize() override {
    demand_context();
    told += "synchronize ";
    for (auto& [stream, work] : streams) work.done = work.issued;
  }
  // Every mark is behind one more piece of work, which is done when the test says so.
  std::unique_ptr<Mark> mark(cudaStream_t stream) override {
    demand_context();
    if (no_marks) throw Error("no mark could be set");
    return std::make_unique<FakeMark>(*this, stream, ++streams[stream].issued);
  }
  void order(cudaStream_t before, cudaStream_t after) override { orders.emplace_back(before, after); }
  Info info() const override { return {total_ - used_, total_}; }

  std::map<std::int64_t, std::int64_t> live;  // address -> bytes
  std::string told;                           // what was called, in words
  std::int64_t calls = 0, releases = 0;
  std::int64_t fail_at = 0;  // number of the allocation that fails; 0: none
  bool lost = false;         // the context is gone: every call throws
  bool no_marks = false;     // mark() throws
  struct Work {
    std::int64_t issued = 0, done = 0;
  };
  std::map<cudaStream_t, Work> streams;
  std::vector<std::pair<cudaStream_t, cudaStream_t>> orders;

 private:
  struct FakeMark final : Mark {
    FakeMark(FakeDevice& device, cudaStream_t stream, std::int64_t behind)
        : device(device), stream(stream), behind(behind) {}
    bool reached() override {
      device.demand_context();
      return device.streams[stream].done >= behind;
    }
    void wait() override { device.streams[stream].done = std::max(device.streams[stream].done, behind); }
    FakeDevice& device;
    cudaStream_t stream;
    std::int64_t behind;
  };
  void demand_context() const {
    if (lost) throw Error("the device is lost");
  }
  static constexpr std::int64_t kGap = 1 << 21;  // segments never touch
  std::int64_t total_, used_ = 0, next_ = 1 << 21;
};

}  // namespace spillway::test
