// packing.h - static packing: buffers whose lifetimes are known beforehand, placed in one arena so that no two that
// live at once overlap, in as little height as can be found. NP-hard (Garey and Johnson's SR2, dynamic storage
// allocation), but a step of training is a friendly case: most meet the lower bound, which proves them optimal.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace spillway::memory {

// Lives over [lower, upper), in any unit that orders; size in bytes.
struct Buffer {
  std::int64_t lower = 0, upper = 0, size = 0;
};

// The largest sum of sizes that live at once: no packing is lower. Error when a buffer has no size or no life, or the
// sizes do not sum to 62 bits.
std::int64_t live_bound(const std::vector<Buffer>& buffers);

struct Packing {
  std::vector<std::int64_t> offsets;  // of each buffer
  std::int64_t height = 0;            // the largest offset + size
  std::int64_t bound = 0;             // no packing is lower: live_bound, or more where a search proved more
  bool optimal() const { return height == bound; }
  double gap() const { return bound > 0 ? static_cast<double>(height - bound) / static_cast<double>(bound) : 0; }
};

struct PackingEffort {
  // Counted, not timed, so that the same buffers give the same packing everywhere. A billion takes a second or two.
  std::int64_t steps = 6'000'000'000;
  // Told of every better packing, and asked every now and then whether to stop; may be empty.
  std::function<void(const Packing&)> better;
  std::function<bool()> stop;
};

// The best packing found: first fit in several orders, then a search (packing_search.h) for the bound itself and, for
// as long as that fails, for heights in between. Every result is validated. Errors as live_bound's.
Packing pack(const std::vector<Buffer>& buffers, const PackingEffort& effort = {});

// Throws std::logic_error, naming the buffers, when two that live at once overlap or one reaches out of [0, height).
void validate(const std::vector<Buffer>& buffers, const Packing& packing);

}  // namespace spillway::memory
