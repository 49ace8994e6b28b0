// packing_search.h - is there a packing of at most this height? A depth-first search that places one buffer at a time
// at the lowest offset that is left to it, in the canonical order of offsets, and turns back as soon as some moment's
// unplaced buffers can no longer fit under the height. After M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator
// for Hardware-Accelerated Machine Learning", ASPLOS 2023.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/memory/packing.h"

namespace spillway::memory {

// Which buffer comes first among those with the same lowest offset, decided by each letter in turn: W sections that it
// lives through, L its life, A its area, Z its size, T the largest sum that is still unplaced where it lives.
using Priority = std::string_view;
inline constexpr std::array<Priority, 4> kPriorities = {"TWA", "WAT", "LAT", "TAW"};

class PackingSearch {
 public:
  explicit PackingSearch(const std::vector<Buffer>& buffers);

  enum class Outcome : std::uint8_t { found, impossible, gave_up };
  // Gives up after so many steps: buffers and sections looked at.
  Outcome run(std::int64_t height, Priority priority, std::int64_t most_steps);
  const std::vector<std::int64_t>& offsets() const { return found_; }  // once found
  std::int64_t steps() const { return steps_; }                        // of the last run

  std::int64_t buffers() const { return static_cast<std::int64_t>(buffers_.size()); }
  const std::vector<std::vector<int>>& overlaps() const {
    return overlaps_;
  }  // of each buffer, those that live with it

 private:
  // Buffers of a stretch of sections that nothing connects with the rest, and their order by priority.
  struct Part {
    std::vector<int> order;
    int begin, end;  // sections
  };
  struct Candidate {
    std::int64_t offset;
    int rank;  // in the part's order
  };
  struct Undo {
    std::vector<std::pair<int, std::int64_t>> lowest, floors;
  };

  bool solve(std::vector<int> buffers, int begin, int end);
  bool extend(const Part& part, Candidate last);
  bool place(const Part& part, Candidate candidate, Undo& undo);
  bool descend(const Part& part, Candidate candidate);
  void take_back(int buffer, const Undo& undo);
  std::vector<Candidate> candidates(const Part& part, Candidate last);
  double key(int buffer, char letter) const;

  const std::vector<Buffer>& buffers_;
  std::vector<int> first_, last_;           // the sections [first, last) that a buffer lives through
  std::vector<std::vector<int>> sections_;  // moments when most live: no other moment's buffers include these
  std::vector<std::vector<int>> overlaps_;

  std::int64_t height_ = 0, steps_ = 0, most_steps_ = 0;
  Priority priority_;
  bool gave_up_ = false;
  std::vector<char> placed_;
  std::vector<std::int64_t> lowest_;    // offset left to a buffer by those placed
  std::vector<std::int64_t> unplaced_;  // bytes, of a section
  std::vector<std::int64_t> floor_;     // the lowest offset left to anything unplaced in a section
  std::vector<int> bridges_;            // unplaced buffers that live in a section and the next
  std::vector<std::int64_t> touched_;   // by which placement a section was changed last
  std::int64_t placements_ = 0;
  std::vector<std::int64_t> found_;
};

}  // namespace spillway::memory
