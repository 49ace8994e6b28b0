// fake_device.h - device memory that exists only as addresses: a policy is tested without a device, and failures are
// chosen.
#pragma once
#include <cstdint>
#include <map>
#include <string>

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
    order += fails ? "no " : "allocate ";
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
    order += "release ";
    live.erase(reinterpret_cast<std::int64_t>(segment));
  }
  void synchronize() override {
    demand_context();
    order += "synchronize ";
  }
  Info info() const override { return {total_ - used_, total_}; }

  std::map<std::int64_t, std::int64_t> live;  // address -> bytes
  std::string order;                          // what was called, in words
  std::int64_t calls = 0, releases = 0;
  std::int64_t fail_at = 0;  // number of the allocation that fails; 0: none
  bool lost = false;         // the context is gone: every call throws

 private:
  void demand_context() const {
    if (lost) throw Error("the device is lost");
  }
  static constexpr std::int64_t kGap = 1 << 21;  // segments never touch
  std::int64_t total_, used_ = 0, next_ = 1 << 21;
};

}  // namespace spillway::test
