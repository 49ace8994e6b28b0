// policy.cpp - the split of reserved bytes, the same for every policy because it is taken from its snapshot.
#include "runtime/memory/policy.h"

#include <algorithm>
#include <set>

namespace spillway::memory {

void Policy::begin_step(std::string_view) {}
void Policy::end_step() noexcept {}
std::string Policy::remarks() const {
  return "";
}

Breakdown breakdown_of(const std::vector<SegmentView>& segments) {
  const auto used = [](const BlockView& b) { return b.state != BlockState::free; };
  std::set<cudaStream_t> busy;
  for (const SegmentView& s : segments)
    if (std::any_of(s.blocks.begin(), s.blocks.end(), used)) busy.insert(s.stream);
  Breakdown sum;
  for (const SegmentView& s : segments) {
    const bool in_use = std::any_of(s.blocks.begin(), s.blocks.end(), used);
    for (const BlockView& b : s.blocks) {
      switch (b.state) {
        case BlockState::allocated:
          sum.requested += b.requested;
          sum.rounding += b.rounded - b.requested;
          sum.unsplit_slack += b.bytes - b.rounded;
          break;
        case BlockState::pending:
          sum.pending += b.bytes;
          break;
        case BlockState::free:
          (!busy.contains(s.stream) ? sum.idle_stream : in_use ? sum.inactive_split : sum.cached_segments) += b.bytes;
          sum.largest_free = std::max(sum.largest_free, b.bytes);
          break;
      }
    }
  }
  return sum;
}

}  // namespace spillway::memory
