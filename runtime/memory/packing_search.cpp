// packing_search.cpp - see packing_search.h. What makes it quick: a height that is tight turns back early; whatever
// falls apart in time is solved part by part, with priorities taken anew from what is still unplaced there.
#include "runtime/memory/packing_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace spillway::memory {
namespace {
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}
}  // namespace

// Sections: what lives between a beginning and the end that follows it next. What lives at any other moment is a part
// of what lives at one of these.
PackingSearch::PackingSearch(const std::vector<Buffer>& buffers) : buffers_(buffers) {
  std::vector<std::int64_t> begins, ends, moments;
  for (const Buffer& b : buffers) {
    begins.push_back(b.lower);
    ends.push_back(b.upper);
  }
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  for (std::size_t b = 0, e = 0; b < begins.size();) {
    while (b < begins.size() && begins[b] < ends[e]) ++b;
    moments.push_back(begins[b - 1]);
    while (e < ends.size() && b < begins.size() && ends[e] <= begins[b]) ++e;
  }
  const auto index = [&](std::int64_t time) {
    return static_cast<int>(std::lower_bound(moments.begin(), moments.end(), time) - moments.begin());
  };
  sections_.resize(moments.size());
  overlaps_.resize(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    first_.push_back(index(buffers[i].lower));
    last_.push_back(index(buffers[i].upper));
    for (int s = first_[i]; s < last_[i]; ++s) sections_[at(s)].push_back(static_cast<int>(i));
  }
  // Two that live at once share a section; each pair is found where the later of them begins.
  for (std::size_t i = 0; i < buffers.size(); ++i)
    for (const int j : sections_[at(first_[i])])
      if (at(j) != i && (first_[at(j)] < first_[i] || at(j) < i)) {
        overlaps_[i].push_back(j);
        overlaps_[at(j)].push_back(static_cast<int>(i));
      }
}

PackingSearch::Outcome PackingSearch::run(std::int64_t height, Priority priority, std::int64_t most_steps) {
  height_ = height;
  priority_ = priority;
  most_steps_ = most_steps;
  steps_ = 0;
  gave_up_ = false;
  placed_.assign(buffers_.size(), 0);
  lowest_.assign(buffers_.size(), 0);
  found_.assign(buffers_.size(), 0);
  unplaced_.assign(sections_.size(), 0);
  floor_.assign(sections_.size(), 0);
  bridges_.assign(sections_.size(), 0);
  touched_.assign(sections_.size(), -1);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    for (int s = first_[i]; s < last_[i]; ++s) {
      unplaced_[at(s)] += buffers_[i].size;
      if (s + 1 < last_[i]) ++bridges_[at(s)];
    }
  if (std::any_of(unplaced_.begin(), unplaced_.end(), [&](std::int64_t bytes) { return bytes > height_; }))
    return Outcome::impossible;
  std::vector<int> all(buffers_.size());
  std::iota(all.begin(), all.end(), 0);
  const int sections = static_cast<int>(sections_.size());
  for (int begin = 0, end = 1; end <= sections; ++end) {
    if (end < sections && bridges_[at(end - 1)] > 0) continue;
    std::vector<int> inside;
    std::copy_if(all.begin(), all.end(), std::back_inserter(inside),
                 [&](int i) { return first_[at(i)] >= begin && first_[at(i)] < end; });
    if (!solve(std::move(inside), begin, end)) return gave_up_ ? Outcome::gave_up : Outcome::impossible;
    begin = end;
  }
  return Outcome::found;
}

double PackingSearch::key(int buffer, char letter) const {
  const Buffer& b = buffers_[at(buffer)];
  switch (letter) {
    case 'W':
      return last_[at(buffer)] - first_[at(buffer)];
    case 'L':
      return static_cast<double>(b.upper - b.lower);
    case 'A':
      return static_cast<double>(b.size) * static_cast<double>(b.upper - b.lower);
    case 'Z':
      return static_cast<double>(b.size);
    default:  // 'T'
      return static_cast<double>(
          *std::max_element(unplaced_.begin() + first_[at(buffer)], unplaced_.begin() + last_[at(buffer)]));
  }
}

bool PackingSearch::solve(std::vector<int> buffers, int begin, int end) {
  std::vector<std::pair<std::array<double, 3>, int>> ranked;
  ranked.reserve(buffers.size());
  for (const int i : buffers) {
    std::array<double, 3> keys{};
    for (std::size_t k = 0; k < priority_.size(); ++k) keys[k] = -key(i, priority_[k]);
    ranked.emplace_back(keys, i);
  }
  std::sort(ranked.begin(), ranked.end());
  for (std::size_t k = 0; k < ranked.size(); ++k) buffers[k] = ranked[k].second;
  return extend({std::move(buffers), begin, end}, {0, 0});
}

// Those worth placing next, lowest first. One that begins where another could end below it would leave a gap for
// nothing; one that comes before the last placed, by offset and then rank, was tried there already.
std::vector<PackingSearch::Candidate> PackingSearch::candidates(const Part& part, Candidate last) {
  std::int64_t lowest_top = kNever;
  for (const int i : part.order)
    if (!placed_[at(i)]) lowest_top = std::min(lowest_top, lowest_[at(i)] + buffers_[at(i)].size);
  std::vector<Candidate> all;
  for (std::size_t rank = 0; rank < part.order.size(); ++rank) {
    const std::size_t i = at(part.order[rank]);
    const Candidate c{lowest_[i], static_cast<int>(rank)};
    if (placed_[i] || c.offset >= lowest_top || c.offset < last.offset ||
        (c.offset == last.offset && c.rank < last.rank))
      continue;
    all.push_back(c);
  }
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.rank < b.rank;
  });
  steps_ += 2 * static_cast<std::int64_t>(part.order.size());
  return all;
}

bool PackingSearch::extend(const Part& part, Candidate last) {
  if (std::all_of(part.order.begin(), part.order.end(), [&](int i) { return placed_[at(i)]; })) return true;
  if (steps_ > most_steps_) {
    gave_up_ = true;
    return false;
  }
  for (const Candidate& c : candidates(part, last)) {
    const int buffer = part.order[at(c.rank)];
    Undo undo;
    const bool found = place(part, c, undo) && descend(part, c);
    if (found) found_[at(buffer)] = c.offset;
    take_back(buffer, undo);
    if (found) return true;
    if (gave_up_) return false;
  }
  return false;
}

// False when some section can no longer hold what is unplaced in it.
bool PackingSearch::place(const Part& part, Candidate candidate, Undo& undo) {
  const int buffer = part.order[at(candidate.rank)];
  const std::int64_t size = buffers_[at(buffer)].size, top = candidate.offset + size;
  placed_[at(buffer)] = 1;
  ++placements_;
  for (int s = first_[at(buffer)]; s < last_[at(buffer)]; ++s) {
    unplaced_[at(s)] -= size;
    touched_[at(s)] = placements_;
  }
  for (const int j : overlaps_[at(buffer)]) {
    if (placed_[at(j)] || lowest_[at(j)] >= top) continue;
    undo.lowest.emplace_back(j, lowest_[at(j)]);
    lowest_[at(j)] = top;
    for (int s = first_[at(j)]; s < last_[at(j)]; ++s) touched_[at(s)] = placements_;
    steps_ += last_[at(j)] - first_[at(j)];
  }
  steps_ += static_cast<std::int64_t>(overlaps_[at(buffer)].size()) + part.end - part.begin;
  for (int s = part.begin; s < part.end; ++s) {
    if (touched_[at(s)] == placements_) {
      std::int64_t floor = kNever;
      for (const int j : sections_[at(s)])
        if (!placed_[at(j)]) floor = std::min(floor, lowest_[at(j)]);
      undo.floors.emplace_back(s, floor_[at(s)]);
      floor_[at(s)] = floor == kNever ? 0 : floor;
      steps_ += static_cast<std::int64_t>(sections_[at(s)].size());
    }
    // Whatever is placed from now on is not lower than the candidate.
    if (unplaced_[at(s)] > 0 && std::max(floor_[at(s)], candidate.offset) + unplaced_[at(s)] > height_) return false;
  }
  return true;
}

void PackingSearch::take_back(int buffer, const Undo& undo) {
  for (auto it = undo.floors.rbegin(); it != undo.floors.rend(); ++it) floor_[at(it->first)] = it->second;
  for (const auto& [j, lowest] : undo.lowest) lowest_[at(j)] = lowest;
  for (int s = first_[at(buffer)]; s < last_[at(buffer)]; ++s) unplaced_[at(s)] += buffers_[at(buffer)].size;
  placed_[at(buffer)] = 0;
}

// Where the buffer was the last to connect two sections, both sides are problems of their own.
bool PackingSearch::descend(const Part& part, Candidate candidate) {
  const int buffer = part.order[at(candidate.rank)];
  std::vector<int> cuts = {part.begin};
  for (int s = first_[at(buffer)]; s + 1 < last_[at(buffer)]; ++s)
    if (--bridges_[at(s)] == 0) cuts.push_back(s + 1);
  cuts.push_back(part.end);
  bool found = true;
  if (cuts.size() == 2) found = extend(part, candidate);
  for (std::size_t c = 1; cuts.size() > 2 && found && c < cuts.size(); ++c) {
    std::vector<int> inside;
    std::copy_if(part.order.begin(), part.order.end(), std::back_inserter(inside),
                 [&](int i) { return !placed_[at(i)] && first_[at(i)] < cuts[c] && last_[at(i)] > cuts[c - 1]; });
    if (!inside.empty()) found = solve(std::move(inside), cuts[c - 1], cuts[c]);
  }
  for (int s = first_[at(buffer)]; s + 1 < last_[at(buffer)]; ++s) ++bridges_[at(s)];
  return found;
}

}  // namespace spillway::memory
