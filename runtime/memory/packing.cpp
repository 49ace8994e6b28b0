// packing.cpp - the bound, first fit, the order in which heights are searched, and the proof of a placement.
#include "runtime/memory/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "runtime/error.h"
#include "runtime/memory/packing_search.h"

namespace spillway::memory {
namespace {

// Beyond these a search's tables and depth are no longer small; first fit in the order of time is.
constexpr std::size_t kMostSearched = 10'000;
constexpr std::int64_t kMostPairs = 60'000'000;

// Buffer numbers at the moments of a sweep: at each time first those that end, then those that begin.
struct Moment {
  std::int64_t at;
  bool begins;
  std::size_t buffer;
};
std::vector<Moment> sweep(const std::vector<Buffer>& buffers) {
  std::vector<Moment> moments;
  moments.reserve(2 * buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    moments.push_back({buffers[i].lower, true, i});
    moments.push_back({buffers[i].upper, false, i});
  }
  std::stable_sort(moments.begin(), moments.end(),
                   [](const Moment& a, const Moment& b) { return a.at != b.at ? a.at < b.at : a.begins < b.begins; });
  return moments;
}

std::int64_t pairs_that_overlap(const std::vector<Buffer>& buffers) {
  std::int64_t pairs = 0, live = 0;
  for (const Moment& m : sweep(buffers)) {
    if (m.begins) pairs += live;
    live += m.begins ? 1 : -1;
  }
  return pairs;
}

std::int64_t height_of(const std::vector<Buffer>& buffers, const std::vector<std::int64_t>& offsets) {
  std::int64_t height = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) height = std::max(height, offsets[i] + buffers[i].size);
  return height;
}

// The lowest gap of `size` between spans, which become sorted.
std::int64_t lowest_gap(std::vector<std::pair<std::int64_t, std::int64_t>>& spans, std::int64_t size) {
  std::sort(spans.begin(), spans.end());
  std::int64_t end = 0;
  for (const auto& [from, to] : spans) {
    if (from - end >= size) return end;
    end = std::max(end, to);
  }
  return end;
}

// Each at the lowest place that is free at its beginning: what an allocator with foresight of nothing could do.
std::vector<std::int64_t> first_fit_in_time(const std::vector<Buffer>& buffers) {
  std::vector<std::int64_t> offsets(buffers.size());
  std::map<std::int64_t, std::int64_t> live;  // offset -> end
  for (const Moment& m : sweep(buffers)) {
    if (!m.begins) {
      live.erase(offsets[m.buffer]);
      continue;
    }
    std::int64_t end = 0;
    for (const auto& [from, to] : live) {
      if (from - end >= buffers[m.buffer].size) break;
      end = to;
    }
    offsets[m.buffer] = end;
    live.emplace(end, end + buffers[m.buffer].size);
  }
  return offsets;
}

// Each at the lowest place that is free over all its life, in the given order.
std::vector<std::int64_t> first_fit(const std::vector<Buffer>& buffers, const std::vector<std::vector<int>>& overlaps,
                                    const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> offsets(buffers.size(), -1);
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const std::size_t i : order) {
    spans.clear();
    for (const int j : overlaps[i])
      if (const auto k = static_cast<std::size_t>(j); offsets[k] >= 0)
        spans.emplace_back(offsets[k], offsets[k] + buffers[k].size);
    offsets[i] = lowest_gap(spans, buffers[i].size);
  }
  return offsets;
}

double area(const Buffer& b) {
  return static_cast<double>(b.size) * static_cast<double>(b.upper - b.lower);
}

// The best so far, and who hears of it.
class Best {
 public:
  Best(const std::vector<Buffer>& buffers, const PackingEffort& effort, std::int64_t bound)
      : buffers_(buffers), effort_(effort) {
    packing_.bound = bound;
    packing_.height = std::int64_t{1} << 62;
  }
  void offer(const std::vector<std::int64_t>& offsets) {
    const std::int64_t height = height_of(buffers_, offsets);
    if (height >= packing_.height) return;
    packing_.offsets = offsets;
    packing_.height = height;
    if (effort_.better) effort_.better(packing_);
  }
  void raise_bound(std::int64_t bound) { packing_.bound = bound; }
  const Packing& packing() const { return packing_; }

 private:
  const std::vector<Buffer>& buffers_;
  const PackingEffort& effort_;
  Packing packing_;
};

// Whether there is a packing of a height, asked with every priority, with so many steps each. False: not decided.
bool try_height(PackingSearch& search, std::int64_t height, std::int64_t patience, std::int64_t& steps_left,
                Best& best) {
  for (const Priority& priority : kPriorities) {
    const PackingSearch::Outcome outcome = search.run(height, priority, std::min(patience, steps_left));
    steps_left -= search.steps();
    if (outcome == PackingSearch::Outcome::found) best.offer(search.offsets());
    if (outcome == PackingSearch::Outcome::impossible) best.raise_bound(height + 1);
    if (outcome != PackingSearch::Outcome::gave_up) return true;
    if (steps_left <= 0) return false;
  }
  return false;
}

// The bound itself first, because where it can be met, a tight search is quick; else half way between it and the best,
// again and again; then all of it with more patience.
void search_heights(PackingSearch& search, const PackingEffort& effort, Best& best) {
  std::int64_t steps_left = effort.steps;
  const Packing& p = best.packing();
  const auto half_way = [&] { return p.bound + (p.height - p.bound) / 2; };
  for (std::int64_t patience = 64 * search.buffers() * search.buffers(); steps_left > 0 && !p.optimal();
       patience *= 4) {
    if (effort.stop && effort.stop()) return;
    try_height(search, p.bound, patience, steps_left, best);
    while (steps_left > 0 && half_way() > p.bound && try_height(search, half_way(), patience, steps_left, best)) {
    }
  }
}

}  // namespace

std::int64_t live_bound(const std::vector<Buffer>& buffers) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& b = buffers[i];
    if (b.size <= 0 || b.lower >= b.upper)
      throw Error(fmt::format("buffer {}: size {} over [{}, {}): a buffer has a size and a life, both above 0", i,
                              b.size, b.lower, b.upper));
    sum = checked_add(sum, b.size, "the sizes of the buffers");
  }
  if (sum >= std::int64_t{1} << 62) throw Error("the sizes of the buffers do not sum to 62 bits");
  std::int64_t live = 0, most = 0;
  for (const Moment& m : sweep(buffers)) {
    live += m.begins ? buffers[m.buffer].size : -buffers[m.buffer].size;
    most = std::max(most, live);
  }
  return most;
}

Packing pack(const std::vector<Buffer>& buffers, const PackingEffort& effort) {
  Best best(buffers, effort, live_bound(buffers));
  best.offer(first_fit_in_time(buffers));
  if (buffers.size() <= kMostSearched && pairs_that_overlap(buffers) <= kMostPairs && !best.packing().optimal()) {
    PackingSearch search(buffers);
    std::vector<std::size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto by = [&](auto key) {
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return key(buffers[a]) > key(buffers[b]); });
      best.offer(first_fit(buffers, search.overlaps(), order));
    };
    by([](const Buffer& b) { return static_cast<double>(b.size); });
    by([](const Buffer& b) { return area(b); });
    by([](const Buffer& b) { return static_cast<double>(b.upper - b.lower); });
    search_heights(search, effort, best);
  }
  validate(buffers, best.packing());
  return best.packing();
}

void validate(const std::vector<Buffer>& buffers, const Packing& packing) {
  if (packing.offsets.size() != buffers.size()) throw std::logic_error("packing: not every buffer has a place");
  std::map<std::int64_t, std::size_t> live;  // by offset
  const auto end = [&](std::size_t i) { return packing.offsets[i] + buffers[i].size; };
  const auto demand_order = [&](std::size_t low, std::size_t high) {
    if (end(low) > packing.offsets[high])
      throw std::logic_error(
          fmt::format("packing: buffers {} and {} overlap at offset {}", low, high, packing.offsets[high]));
  };
  for (const Moment& m : sweep(buffers)) {
    const std::int64_t offset = packing.offsets[m.buffer];
    if (!m.begins) {
      live.erase(offset);
      continue;
    }
    if (offset < 0 || end(m.buffer) > packing.height)
      throw std::logic_error(fmt::format("packing: buffer {} reaches out of the arena", m.buffer));
    const auto [place, is_new] = live.emplace(offset, m.buffer);
    if (!is_new)
      throw std::logic_error(
          fmt::format("packing: buffers {} and {} overlap at offset {}", place->second, m.buffer, offset));
    if (place != live.begin()) demand_order(std::prev(place)->second, m.buffer);
    if (std::next(place) != live.end()) demand_order(m.buffer, std::next(place)->second);
  }
}

}  // namespace spillway::memory
