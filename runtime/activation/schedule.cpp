// schedule.cpp - from a plan to the list of actions of one step. The three rules that make it safe are each one line
// here: a copy out waits for the producer; the memory it read is released only behind a wait for that copy; a copy in
// waits for the copy out of the same tensor and for compute to have reached the point where its memory is free.
#include "runtime/activation/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace spillway::activation {
namespace {

using Kind = Action::Kind;

class Builder {
 public:
  Builder(const LayerSpec& spec, int layers)
      : spec_(spec), layers_(layers), tensors_(static_cast<int>(spec.tensors.size())) {
    spec.validate();
    schedule_.layers = layers;
    state_.assign(static_cast<std::size_t>(layers) + 1, std::vector<State>(spec.tensors.size()));
    last_forward_read_.assign(spec.tensors.size(), -1);
    for (int i = 0; i < static_cast<int>(spec.forward.size()); ++i) {
      for (const int t : spec.forward[static_cast<std::size_t>(i)].writes)
        last_forward_read_[static_cast<std::size_t>(t)] = i;
      for (const int t : spec.forward[static_cast<std::size_t>(i)].reads)
        last_forward_read_[static_cast<std::size_t>(t)] = i;
    }
  }

  Schedule training(const Plan& plan) {
    plan.validate(spec_);
    for (int l = 0; l < layers_; ++l) {
      const std::vector<bool> again = read_again(plan, spec_, l);
      for (int t = 0; t < tensors_; ++t)
        at(l, t).fate = again[static_cast<std::size_t>(t)] ? plan.at(l, t) : Placement::recompute;
    }
    at(layers_, 0).fate = Placement::keep;  // the head's input

    allocate(0, 0);
    produce({Kind::embed}, {{0, 0}});
    for (int l = 0; l < layers_; ++l) {
      if (l >= plan.window) release_copied(l - plan.window);
      forward(l);
    }
    for (int l = std::max(0, layers_ - plan.window); l < layers_; ++l) release_copied(l);
    add({Kind::head});
    release(layers_, 0, {});
    for (int l = layers_ - 1; l >= 0; --l) {
      for (int ahead = 0; ahead < plan.window && l - ahead >= 0; ++ahead) prefetch(plan, l - ahead);
      backward(plan, l);
    }
    add({Kind::embed_backward});
    add({Kind::optimizer});
    return std::move(schedule_);
  }

  Schedule evaluation() {
    for (auto& layer : state_)
      for (State& s : layer) s.fate = Placement::recompute;  // nothing is saved
    allocate(0, 0);
    produce({Kind::embed}, {{0, 0}});
    for (int l = 0; l < layers_; ++l) forward(l);
    add({Kind::head});
    release(layers_, 0, {});
    return std::move(schedule_);
  }

 private:
  struct State {
    Placement fate = Placement::keep;
    bool resident = false;    // has device memory
    EventId copied_out = -1;  // its copy to the host is done
    EventId copied_in = -1;   // its copy back is done; -1 again once compute has waited for it
    bool prefetched = false;
  };
  struct Where {
    int layer, tensor;
  };

  State& at(int layer, int tensor) { return state_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(tensor)]; }
  Action& add(Action action) { return schedule_.actions.emplace_back(std::move(action)); }
  EventId new_event() { return schedule_.events++; }

  void allocate(int layer, int tensor) {
    if (std::exchange(at(layer, tensor).resident, true)) return;
    add({Kind::allocate, layer, tensor});
  }
  void release(int layer, int tensor, std::vector<EventId> waits) {
    if (!std::exchange(at(layer, tensor).resident, false)) return;
    add({Kind::release, layer, tensor, -1, ScheduleStream::compute, std::move(waits)});
  }

  // An action that writes `outputs` in the forward pass; those that the plan offloads are copied out as soon as it is
  // done.
  void produce(Action action, const std::vector<Where>& outputs) {
    const bool offloads = std::any_of(outputs.begin(), outputs.end(),
                                      [&](const Where& w) { return at(w.layer, w.tensor).fate == Placement::offload; });
    if (offloads) action.records = new_event();
    const EventId ready = add(std::move(action)).records;
    for (const Where& w : outputs) {
      State& s = at(w.layer, w.tensor);
      if (s.fate != Placement::offload) continue;
      s.copied_out = new_event();
      add({Kind::offload, w.layer, w.tensor, -1, ScheduleStream::copy_out, {ready}, s.copied_out});
    }
  }

  void forward(int layer) {
    for (int i = 0; i < static_cast<int>(spec_.forward.size()); ++i) {
      const ForwardOperator& op = spec_.forward[static_cast<std::size_t>(i)];
      std::vector<Where> outputs;
      for (const int t : op.writes) outputs.push_back({layer, t});
      if (op.writes_next_input) outputs.push_back({layer + 1, 0});
      for (const Where& w : outputs) allocate(w.layer, w.tensor);
      produce({Kind::forward, layer, -1, i}, outputs);
      for (int t = 0; t < tensors_; ++t)
        if (last_forward_read_[static_cast<std::size_t>(t)] == i && at(layer, t).fate == Placement::recompute)
          release(layer, t, {});
    }
  }

  // Gives back a layer's device memory that was copied out: as late as the window allows, so that compute rarely waits.
  void release_copied(int layer) {
    for (int t = 0; t < tensors_; ++t)
      if (const State& s = at(layer, t); s.fate == Placement::offload) release(layer, t, {s.copied_out});
  }

  // Brings a layer's offloaded tensors back, in the order in which they will be read.
  void prefetch(const Plan& plan, int layer) {
    std::vector<int> order;
    const auto wanted = [&](int t) {
      State& s = at(layer, t);
      if (s.fate == Placement::offload && !std::exchange(s.prefetched, true)) order.push_back(t);
    };
    for (const int i : recomputed_operators(plan, spec_, layer))
      for (const int t : spec_.forward[static_cast<std::size_t>(i)].reads) wanted(t);
    for (const BackwardOperator& op : spec_.backward)
      for (const int t : op.reads) wanted(t);
    if (order.empty()) return;
    for (const int t : order) allocate(layer, t);
    // The memory may have had another owner: it is free once compute, in whose order it was handed out, is here.
    const EventId free = schedule_.actions.back().records = new_event();
    for (const int t : order) {
      State& s = at(layer, t);
      s.copied_in = new_event();
      std::vector<EventId> waits = {s.copied_out};
      if (t == order.front()) waits.push_back(free);  // the stream is in order: the others follow
      add({Kind::prefetch, layer, t, -1, ScheduleStream::copy_in, std::move(waits), s.copied_in});
    }
  }

  // The copies in that an action must wait for: each once, just before its first use.
  std::vector<EventId> arrivals(int layer, const std::vector<int>& tensors) {
    std::vector<EventId> waits;
    for (const int t : tensors)
      if (const EventId e = std::exchange(at(layer, t).copied_in, -1); e >= 0) waits.push_back(e);
    return waits;
  }

  void backward(const Plan& plan, int layer) {
    // The layer's second half as one list, so that a tensor's last reader is easy to see.
    struct Step {
      Action action;
      const std::vector<int>*reads, *writes;
    };
    static const std::vector<int> kNone;
    std::vector<Step> steps;
    for (const int i : recomputed_operators(plan, spec_, layer)) {
      const ForwardOperator& op = spec_.forward[static_cast<std::size_t>(i)];
      steps.push_back({{Kind::recompute, layer, -1, i}, &op.reads, &op.writes});
    }
    for (int i = 0; i < static_cast<int>(spec_.backward.size()); ++i)
      steps.push_back({{Kind::backward, layer, -1, i}, &spec_.backward[static_cast<std::size_t>(i)].reads, &kNone});
    std::vector<std::size_t> last(spec_.tensors.size(), 0);
    for (std::size_t n = 0; n < steps.size(); ++n)
      for (const auto* list : {steps[n].reads, steps[n].writes})
        for (const int t : *list) last[static_cast<std::size_t>(t)] = n;

    for (std::size_t n = 0; n < steps.size(); ++n) {
      Step& step = steps[n];
      step.action.waits = arrivals(layer, *step.reads);
      // An output that was kept or brought back is written again, with the same bytes: not while its copy is under way.
      const std::vector<EventId> more = arrivals(layer, *step.writes);
      step.action.waits.insert(step.action.waits.end(), more.begin(), more.end());
      for (const int t : *step.writes) allocate(layer, t);
      add(std::move(step.action));
      for (int t = 0; t < tensors_; ++t)
        if (last[static_cast<std::size_t>(t)] == n) release(layer, t, {});
    }
  }

  const LayerSpec& spec_;
  int layers_, tensors_;
  Schedule schedule_;
  std::vector<std::vector<State>> state_;  // [layer][tensor]; [layers][0] is the head's input
  std::vector<int> last_forward_read_;     // of each tensor: the last operator of its layer that touches it
};

}  // namespace

const char* to_string(ScheduleStream s) {
  switch (s) {
    case ScheduleStream::compute:
      return "compute";
    case ScheduleStream::copy_out:
      return "copy-out";
    case ScheduleStream::copy_in:
      return "copy-in";
  }
  return "?";
}

const char* to_string(Action::Kind k) {
  static constexpr const char* kNames[] = {"allocate", "embed",     "forward",  "offload",        "release",  "head",
                                           "prefetch", "recompute", "backward", "embed backward", "optimizer"};
  return kNames[static_cast<std::size_t>(k)];
}

Schedule training_schedule(const Plan& plan, const LayerSpec& spec) {
  return Builder(spec, plan.layers()).training(plan);
}

Schedule evaluation_schedule(const LayerSpec& spec, int layers) {
  return Builder(spec, layers).evaluation();
}

std::string format_action(const Action& a, const LayerSpec& spec) {
  std::string what;
  if (a.layer >= 0) what = fmt::format("layer {}", a.layer);
  if (a.tensor >= 0) what += " " + spec.tensors[static_cast<std::size_t>(a.tensor)].name;
  if (a.op >= 0)
    what += " " + (a.kind == Kind::backward ? spec.backward[static_cast<std::size_t>(a.op)].name
                                            : spec.forward[static_cast<std::size_t>(a.op)].name);
  std::string line = fmt::format("{:<9} {:<14} {:<30}", to_string(a.stream), to_string(a.kind), what);
  if (!a.waits.empty()) line += fmt::format(" waits e{}", fmt::join(a.waits, " e"));
  if (a.records >= 0) line += fmt::format(" records e{}", a.records);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace spillway::activation
