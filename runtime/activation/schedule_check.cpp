// schedule_check.cpp - happens-before by vector clocks (Lamport 1978; Mattern 1989): each action carries, for each
// stream, how many of its actions are certainly over when this one begins. Two actions that touch the same memory must
// be ordered so.
#include "runtime/activation/schedule_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace spillway::activation {
namespace {

using Kind = Action::Kind;
using Clock = std::array<int, kScheduleStreams>;

class Checker {
 public:
  Checker(const Schedule& schedule, const LayerSpec& spec) : schedule_(schedule), spec_(spec) {}

  ScheduleReport run() {
    order_actions();
    for (int i = 0; i < count(); ++i) visit(i);
    for (const auto& [where, buffer] : device_)
      if (buffer.allocated) complain(buffer.allocated_at, fmt::format("{} is never released", name(where)));
    check_end();
    check_complete();
    return std::move(report_);
  }

 private:
  using Where = std::pair<int, int>;  // layer, tensor
  // One stretch of device memory, from its allocate to its release.
  struct Buffer {
    bool allocated = false;
    int allocated_at = -1, written_by = -1;
    std::vector<int> accesses;  // since the last write, that included
  };

  int count() const { return static_cast<int>(schedule_.actions.size()); }
  const Action& action(int i) const { return schedule_.actions[static_cast<std::size_t>(i)]; }
  static std::size_t stream(const Action& a) { return static_cast<std::size_t>(a.stream); }

  std::string name(Where w) const {
    return fmt::format("layer {} {}", w.first, spec_.tensors.at(static_cast<std::size_t>(w.second)).name);
  }
  void complain(int i, const std::string& problem) {
    report_.problems.push_back(fmt::format("action {} ({}): {}", i, format_action(action(i), spec_), problem));
  }

  // Clocks of every action, and what is wrong with the events themselves.
  void order_actions() {
    std::vector<std::optional<Clock>> recorded(static_cast<std::size_t>(schedule_.events));
    Clock now[kScheduleStreams] = {};
    begins_.resize(schedule_.actions.size());
    place_.resize(schedule_.actions.size());
    for (int i = 0; i < count(); ++i) {
      const Action& a = action(i);
      Clock& mine = now[stream(a)];
      for (const EventId e : a.waits) {
        if (e < 0 || e >= schedule_.events || !recorded[static_cast<std::size_t>(e)]) {
          complain(i, fmt::format("waits for e{}, which nothing before it records", e));
          continue;
        }
        const Clock& other = *recorded[static_cast<std::size_t>(e)];
        for (std::size_t s = 0; s < mine.size(); ++s) mine[s] = std::max(mine[s], other[s]);
      }
      begins_[static_cast<std::size_t>(i)] = mine;
      place_[static_cast<std::size_t>(i)] = ++mine[stream(a)];
      if (a.records < 0) continue;
      if (a.records >= schedule_.events || recorded[static_cast<std::size_t>(a.records)])
        complain(i, fmt::format("records e{}, which {}", a.records,
                                a.records >= schedule_.events ? "does not exist" : "is recorded already"));
      else
        recorded[static_cast<std::size_t>(a.records)] = mine;
    }
    end_ = now[static_cast<std::size_t>(ScheduleStream::compute)];
    for (std::size_t s = 0; s < end_.size(); ++s) total_[s] = now[s][s];
  }

  // Whether `earlier` is over before `later` begins, whatever the streams' speeds.
  bool ordered(int earlier, int later) const {
    return begins_[static_cast<std::size_t>(later)][stream(action(earlier))] >=
           place_[static_cast<std::size_t>(earlier)];
  }
  void demand_ordered(int earlier, int later, const char* what, Where w) {
    if (!ordered(earlier, later))
      complain(later, fmt::format("{} {} is not ordered behind action {} ({})", what, name(w), earlier,
                                  format_action(action(earlier), spec_)));
  }

  void read(int i, Where w) {
    Buffer& b = device_[w];
    if (!b.allocated) return complain(i, fmt::format("reads {}, which has no device memory", name(w)));
    if (b.written_by < 0) return complain(i, fmt::format("reads {}, which nobody has written", name(w)));
    demand_ordered(b.written_by, i, "its read of", w);
    b.accesses.push_back(i);
  }
  void write(int i, Where w) {
    Buffer& b = device_[w];
    if (!b.allocated) return complain(i, fmt::format("writes {}, which has no device memory", name(w)));
    demand_ordered(b.allocated_at, i, "its write of", w);
    for (const int other : b.accesses) demand_ordered(other, i, "its write of", w);
    b.written_by = i;
    b.accesses = {i};
  }
  void operate(int i, const std::vector<int>& reads, const std::vector<int>& writes) {
    for (const int t : reads) read(i, {action(i).layer, t});
    for (const int t : writes) write(i, {action(i).layer, t});
  }

  void visit(int i) {
    const Action& a = action(i);
    const Where w{a.layer, a.tensor};
    const auto bytes = [&] { return spec_.tensors[static_cast<std::size_t>(a.tensor)].bytes; };
    const auto forward = [&]() -> const ForwardOperator& { return spec_.forward[static_cast<std::size_t>(a.op)]; };
    switch (a.kind) {
      case Kind::allocate: {
        Buffer& b = device_[w];
        if (b.allocated) complain(i, fmt::format("{} has device memory already", name(w)));
        b = Buffer{true, i, -1, {}};
        live_ += bytes();
        report_.peak_saved_bytes = std::max(report_.peak_saved_bytes, live_);
        break;
      }
      case Kind::release: {
        Buffer& b = device_[w];
        if (!b.allocated) {
          complain(i, fmt::format("{} has no device memory", name(w)));
          break;
        }
        // Whoever gets this memory next writes it in compute's order from here on.
        for (const int other : b.accesses) demand_ordered(other, i, "its release of", w);
        b.allocated = false;
        live_ -= bytes();
        break;
      }
      case Kind::embed:
        write(i, {0, 0});
        break;
      case Kind::forward:
        operate(i, forward().reads, forward().writes);
        if (forward().writes_next_input) write(i, {a.layer + 1, 0});
        break;
      case Kind::recompute:
        operate(i, forward().reads, forward().writes);
        report_.recompute_flops += forward().flops;
        break;
      case Kind::backward:
        operate(i, spec_.backward[static_cast<std::size_t>(a.op)].reads, {});
        break;
      case Kind::head:
        read(i, {schedule_.layers, 0});
        break;
      case Kind::offload:
        read(i, w);
        if (!host_.emplace(w, i).second) complain(i, fmt::format("{} is copied out a second time", name(w)));
        report_.offload_bytes += bytes();
        break;
      case Kind::prefetch:
        write(i, w);
        if (const auto out = host_.find(w); out == host_.end())
          complain(i, fmt::format("{} was never copied out", name(w)));
        else
          demand_ordered(out->second, i, "its copy in of", w);
        report_.prefetch_bytes += bytes();
        break;
      case Kind::embed_backward:
      case Kind::optimizer:
        break;
    }
  }

  // The next step may begin when compute is through: no copy of this one may be left running then.
  void check_end() {
    for (const ScheduleStream s : {ScheduleStream::copy_out, ScheduleStream::copy_in})
      if (end_[static_cast<std::size_t>(s)] < total_[static_cast<std::size_t>(s)])
        report_.problems.push_back(
            fmt::format("the step ends without waiting for the last copies of stream {}", to_string(s)));
  }

  // Every operator runs once, in order, on the compute stream.
  void check_complete() {
    std::vector<std::array<int, 3>> expected, found;
    const auto key = [](Kind k, int layer, int op) { return std::array<int, 3>{static_cast<int>(k), layer, op}; };
    bool training = false;
    for (const Action& a : schedule_.actions) {
      const bool copies = a.kind == Kind::offload || a.kind == Kind::prefetch;
      if (copies != (a.stream != ScheduleStream::compute))
        report_.problems.push_back(fmt::format("{}: on the wrong stream", format_action(a, spec_)));
      training |= a.kind == Kind::backward || a.kind == Kind::optimizer || a.kind == Kind::embed_backward;
      switch (a.kind) {
        case Kind::embed:
        case Kind::forward:
        case Kind::head:
        case Kind::backward:
        case Kind::embed_backward:
        case Kind::optimizer:
          found.push_back(key(a.kind, a.layer, a.op));
          break;
        default:
          break;
      }
    }
    expected.push_back(key(Kind::embed, -1, -1));
    for (int l = 0; l < schedule_.layers; ++l)
      for (int op = 0; op < static_cast<int>(spec_.forward.size()); ++op) expected.push_back(key(Kind::forward, l, op));
    expected.push_back(key(Kind::head, -1, -1));
    for (int l = schedule_.layers - 1; training && l >= 0; --l)
      for (int op = 0; op < static_cast<int>(spec_.backward.size()); ++op)
        expected.push_back(key(Kind::backward, l, op));
    if (training) {
      expected.push_back(key(Kind::embed_backward, -1, -1));
      expected.push_back(key(Kind::optimizer, -1, -1));
    }
    if (found != expected) report_.problems.push_back("the operators of the step are not each there once, in order");
  }

  const Schedule& schedule_;
  const LayerSpec& spec_;
  ScheduleReport report_;
  std::vector<Clock> begins_;  // of each action: what is over when it begins
  std::vector<int> place_;     // of each action: its number on its own stream, from 1
  Clock end_{}, total_{};      // what is over when compute is; all there is
  std::map<Where, Buffer> device_;
  std::map<Where, int> host_;  // which action copied it out
  std::int64_t live_ = 0;
};

}  // namespace

ScheduleReport check_schedule(const Schedule& schedule, const LayerSpec& spec) {
  return Checker(schedule, spec).run();
}

}  // namespace spillway::activation
