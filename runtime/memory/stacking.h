// stacking.h - wrappers for studies, which stand on any policy, or on one another: a limit, a log, a failure at the
// k-th request, statistics; and a device with less memory than it has.
#pragma once
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "runtime/memory/device_memory.h"
#include "runtime/memory/policy.h"

namespace spillway::memory {

// A device of at most `cap_bytes` (0: all that it has): a policy above reserves no more.
class CappedMemory : public DeviceMemory {
 public:
  CappedMemory(DeviceMemory& device, std::int64_t cap_bytes) : device_(device), cap_(cap_bytes) {}
  void* allocate(std::int64_t bytes) override;
  void release(void* segment, std::int64_t bytes) noexcept override;
  void synchronize() override { device_.synchronize(); }
  std::unique_ptr<Mark> mark(cudaStream_t stream) override { return device_.mark(stream); }
  void order(cudaStream_t before, cudaStream_t after) override { device_.order(before, after); }
  void* reserve_addresses(std::int64_t bytes) override { return device_.reserve_addresses(bytes); }
  void release_addresses(void* addresses, std::int64_t bytes) noexcept override {
    device_.release_addresses(addresses, bytes);
  }
  bool map_page(void* page) override;
  void unmap_page(void* page) noexcept override;
  // Refused when the pool would hold more than the cap even if it were as small as it can be.
  void* allocate_async(std::int64_t bytes, cudaStream_t stream) override;
  void release_async(void* memory, cudaStream_t stream) noexcept override { device_.release_async(memory, stream); }
  std::int64_t pool_reserved() override { return device_.pool_reserved(); }
  void trim_pool() override;
  Info info() const override;

 private:
  std::int64_t used() const { return segments_and_pages_ + pool_; }
  bool has_room(std::int64_t bytes) const { return cap_ <= 0 || used() <= cap_ - bytes; }
  void look_at_pool() { pool_ = device_.pool_reserved(); }
  DeviceMemory& device_;
  std::int64_t cap_, segments_and_pages_ = 0, pool_ = 0;
};

// Stands on another policy and passes everything on.
class Wrapper : public Policy {
 public:
  explicit Wrapper(std::unique_ptr<Policy> below) : below_(std::move(below)) {}
  Block* allocate(std::int64_t bytes, cudaStream_t stream) override { return below_->allocate(bytes, stream); }
  void free(Block* block) noexcept override { below_->free(block); }
  void record_use(Block* block, cudaStream_t stream) override { below_->record_use(block, stream); }
  void release_cached() override { below_->release_cached(); }
  void begin_step(std::string_view kind) override { below_->begin_step(kind); }
  void end_step() noexcept override { below_->end_step(); }
  std::vector<SegmentView> snapshot() const override { return below_->snapshot(); }
  void check_invariants() const override { below_->check_invariants(); }
  std::string name() const override { return below_->name(); }
  std::string remarks() const override { return below_->remarks(); }
  void keep_books(DeviceBooks& books) override { below_->keep_books(books); }

 protected:
  Policy& below() { return *below_; }
  std::string remarks_with(const std::string& own) const;

 private:
  std::unique_ptr<Policy> below_;
};

// "limit:N": hands out at most N bytes, as its blocks count.
class Limit final : public Wrapper {
 public:
  Limit(std::unique_ptr<Policy> below, std::int64_t bytes) : Wrapper(std::move(below)), limit_(bytes) {}
  Block* allocate(std::int64_t bytes, cudaStream_t stream) override;
  void free(Block* block) noexcept override;
  std::string name() const override;

 private:
  std::int64_t limit_, handed_out_ = 0;
};

// "fail:K": the K-th request (from 1) finds no memory, whatever there is.
class FailAt final : public Wrapper {
 public:
  FailAt(std::unique_ptr<Policy> below, std::int64_t k) : Wrapper(std::move(below)), k_(k) {}
  Block* allocate(std::int64_t bytes, cudaStream_t stream) override;
  std::string name() const override;

 private:
  std::int64_t k_, requests_ = 0;
};

// "log:FILE": a line a request and a free, as RMM's logging adaptor writes them
// (Thread,Time,Action,Pointer,Size,Stream); a request without success as action `allocate failure`. Time is from the
// first line, thread always 0.
class Log final : public Wrapper {
 public:
  // Error when the file cannot be created.
  Log(std::unique_ptr<Policy> below, const std::string& file);
  Block* allocate(std::int64_t bytes, cudaStream_t stream) override;
  void free(Block* block) noexcept override;
  std::string name() const override;
  std::string remarks() const override;

 private:
  void line(const char* action, const void* pointer, std::int64_t bytes, cudaStream_t stream) noexcept;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t start_ns_ = 0;
  bool incomplete_ = false;
};

// "statistics": counts and bytes of what went through, and how requests are distributed over powers of two.
class Statistics final : public Wrapper {
 public:
  explicit Statistics(std::unique_ptr<Policy> below) : Wrapper(std::move(below)) {}
  Block* allocate(std::int64_t bytes, cudaStream_t stream) override;
  void free(Block* block) noexcept override;
  std::string name() const override;
  std::string remarks() const override;

  struct Counter {
    std::int64_t value = 0, peak = 0, total = 0;
    void add(std::int64_t n);
    void subtract(std::int64_t n) { value -= n; }
  };
  const Counter& bytes() const { return bytes_; }    // as requested
  const Counter& blocks() const { return blocks_; }  // live, most live, all
  std::int64_t refused() const { return refused_; }
  // log2 of a size, rounded up -> requests of such a size that were served
  const std::map<int, std::int64_t>& sizes() const { return sizes_; }

 private:
  Counter bytes_, blocks_;
  std::int64_t refused_ = 0;
  std::map<int, std::int64_t> sizes_;
};

}  // namespace spillway::memory
