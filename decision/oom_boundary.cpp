// oom_boundary.cpp - the search and its probes: see oom_boundary.h.
#include "decision/oom_boundary.h"
#include "runtime/memory/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway::decision {
namespace {

Probe train_two_steps(const BoundaryOptions& o, const DeviceInfo& device, const std::string& strategy, std::int64_t seq,
                      std::int64_t cap_bytes) {
  Probe probe;
  probe.seq = seq;
  WorkloadOptions options = o.workload;
  options.seq = seq;
  Workload workload(options, device);
  const data::TokenBatch tokens = workload.tokens().next(options.batch, seq);
  try {
    memory::CudaDeviceMemory memory;
    memory::CachingAllocator allocator(memory, {.cap_bytes = cap_bytes});
    const auto trainer = workload.trainer(strategy, allocator);
    for (int step = 0; step < 2; ++step) trainer->step(tokens);
    probe.fits = true;
    probe.peak_bytes = allocator.stats().max_allocated;
    probe.peak_reserved_bytes = allocator.stats().max_reserved;
    probe.host_bytes = trainer->store().host_bytes();
  } catch (const std::exception& e) {
    if (!is_out_of_memory(e)) throw;
    probe.error = e.what();
  }
  return probe;
}

class BooksOnly {
 public:
  explicit BooksOnly(const std::function<void(bool)>& set) : set_(set) {
    if (set_) set_(true);
  }
  ~BooksOnly() {
    if (set_) set_(false);
  }
  BooksOnly(const BooksOnly&) = delete;
  BooksOnly& operator=(const BooksOnly&) = delete;

 private:
  const std::function<void(bool)>& set_;
};

}  // namespace

Boundary find_boundary(const std::string& strategy, std::int64_t positions,
                       const std::function<Probe(std::int64_t)>& probe) {
  Boundary b;
  b.strategy = strategy;
  const std::int64_t last = positions / kBoundaryStep * kBoundaryStep;
  const auto fits = [&](std::int64_t seq) {
    b.probes.push_back(probe(seq));
    (b.probes.back().fits ? b.largest : b.first_failing) = b.probes.back();
    return b.probes.back().fits;
  };
  std::int64_t good = 0, bad = kBoundaryStep;
  while (bad <= last && fits(bad)) {
    good = bad;
    bad = bad < last ? std::min(2 * bad, last) : last + kBoundaryStep;
  }
  if (bad > last) return b;  // the model ends before the memory
  while (bad - good > kBoundaryStep) {
    const std::int64_t middle = (good + bad) / 2 / kBoundaryStep * kBoundaryStep;
    (fits(middle) ? good : bad) = middle;
  }
  return b;
}

BoundaryRun run_boundaries(const BoundaryOptions& options, const DeviceInfo& device, Workload& workload,
                           const Watcher& watcher) {
  BoundaryRun r{options, describe(workload, device), workload.config().max_positions, 0, {}};
  r.memory_cap_mb = options.memory_cap_mb.value_or(mib(device.memory_bytes));
  const auto cap_bytes = options.memory_cap_mb ? std::max(1ll, std::llround(*options.memory_cap_mb * 1024 * 1024)) : 0;
  const auto probe = [&](const char* doing, const std::string& strategy, std::int64_t seq) {
    if (watcher.stop()) throw Interrupted("interrupted");
    watcher.progress(fmt::format("{}  {}  seq {}", doing, strategy, seq));
    return train_two_steps(options, device, strategy, seq, cap_bytes);
  };
  {
    const BooksOnly books(options.set_books_only);
    for (const std::string& strategy : options.strategies)
      r.boundaries.push_back(find_boundary(strategy, r.positions, [&](std::int64_t seq) {
        return probe(options.set_books_only ? "books" : "two steps", strategy, seq);
      }));
  }
  for (Boundary& b : r.boundaries) {
    if (!options.confirm || (!b.largest && !b.first_failing)) continue;
    b.confirmed = (!b.largest || probe("confirming", b.strategy, b.largest->seq).fits) &&
                  (!b.first_failing || !probe("confirming", b.strategy, b.first_failing->seq).fits);
  }
  watcher.progress("");
  return r;
}

}  // namespace spillway::decision
