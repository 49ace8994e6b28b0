// range_log.h - what a recorder collects from the host's side while it runs: the ranges and the declared work, each
// with the external correlation id under which CUPTI attributes calls to it (CUSTOM0: ranges, CUSTOM1: declared work).
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "profiler/activity.h"

namespace spillway::profiler {

// Host time; the clock of every record.
std::uint64_t clock_ns();
std::uint32_t thread_number();

class RangeLog {
 public:
  // From now on Range and kernels::declare() come here. One log at a time: std::logic_error.
  RangeLog();
  ~RangeLog();
  RangeLog(const RangeLog&) = delete;
  RangeLog& operator=(const RangeLog&) = delete;

  // Times on clock_ns(), in the order in which they began; those that have not ended have no end.
  std::vector<RangeSpan> ranges() const;
  // Work by its id - 1.
  std::vector<DeclaredWork> works() const;

 private:
  friend class Range;
  std::uint64_t begin(Phase phase, const char* name, int layer);
  void end(std::uint64_t id);
  void declare(const char* name, std::int64_t flops, std::int64_t bytes);

  mutable std::mutex mutex_;
  std::uint64_t first_id_;  // ids of one log are not those of another
  std::vector<RangeSpan> ranges_;
  std::vector<DeclaredWork> works_;
};

}  // namespace spillway::profiler
