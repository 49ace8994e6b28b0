// store.cpp - see store.h. run() is the whole idea: for each action wait for its events, do it, record its event. The
// rest is what the actions need (memory, host slots, events) and what a step cost.
#include "runtime/activation/store.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <stdexcept>

namespace spillway::activation {
namespace {

// Spans of a stream's time that a step is asked about, as pairs of timing events that are made once and used every
// step.
class Spans {
 public:
  enum class Kind : std::uint8_t { recompute, copy, exposed };

  void begin_step() { used_ = 0; }
  void open(Kind kind, cudaStream_t stream) {
    if (used_ == spans_.size()) spans_.emplace_back();
    spans_[used_].kind = kind;
    spans_[used_].start.record(stream);
  }
  void close(cudaStream_t stream) { spans_[used_++].stop.record(stream); }
  double total_ms(Kind kind) const {
    double sum = 0;
    for (std::size_t i = 0; i < used_; ++i)
      if (spans_[i].kind == kind) sum += elapsed_ms(spans_[i].start, spans_[i].stop);
    return sum;
  }

 private:
  struct Span {
    Kind kind = Kind::copy;
    Event start{Event::Timing::on}, stop{Event::Timing::on};
  };
  std::deque<Span> spans_;
  std::size_t used_ = 0;
};

}  // namespace

struct Store::Impl {
  Impl(const Store& store, memory::Allocator& allocator, cudaStream_t compute, StoreOptions options)
      : spec(store.spec_), allocator(allocator), compute(compute), options(options) {
    const auto layers = static_cast<std::size_t>(store.training_.layers);
    tensors.resize(layers + 1);
    owners.resize(layers + 1);
    slots.assign(layers, std::vector<int>(spec.tensors.size(), -1));
    for (std::size_t l = 0; l <= layers; ++l) {
      tensors[l].resize(spec.tensors.size());
      for (const SavedTensor& t : spec.tensors) owners[l].push_back(fmt::format("layer {} {}", l, t.name));
    }
    for (int i = std::max(store.training_.events, store.evaluation_.events); i > 0; --i) events.emplace_back();
    std::vector<std::int64_t> sizes;
    for (const Action& a : store.training_.actions)
      if (a.kind == Action::Kind::offload) {
        slot_of(a) = static_cast<int>(sizes.size());
        sizes.push_back(spec.tensors[static_cast<std::size_t>(a.tensor)].bytes);
      }
    arena.emplace(store.plan_.host_memory, sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      poison.push_back({arena->slot(i), static_cast<std::size_t>(sizes[i])});
  }
  ~Impl() { cudaDeviceSynchronize(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int& slot_of(const Action& a) { return slots[static_cast<std::size_t>(a.layer)][static_cast<std::size_t>(a.tensor)]; }
  memory::Allocation& tensor_of(const Action& a) {
    return tensors[static_cast<std::size_t>(a.layer)][static_cast<std::size_t>(a.tensor)];
  }
  std::int64_t bytes_of(const Action& a) const { return spec.tensors[static_cast<std::size_t>(a.tensor)].bytes; }
  cudaStream_t stream_of(const Action& a) const {
    switch (a.stream) {
      case ScheduleStream::copy_out:
        return copy_out.get();
      case ScheduleStream::copy_in:
        return copy_in.get();
      case ScheduleStream::compute:
        break;
    }
    return compute;
  }

  void execute(const Schedule& schedule, StepOperators& operators) {
    cost = {};
    spans.begin_step();
    try {
      for (std::size_t i = 0; i < schedule.actions.size(); ++i) {
        const Action& a = schedule.actions[i];
        operators.begin(a);
        wait(a);
        const bool again = a.kind == Action::Kind::recompute;
        if (again) open(Spans::Kind::recompute, compute);
        perform(schedule, i, operators);
        if (again) close(compute);
        if (a.records >= 0) events[static_cast<std::size_t>(a.records)].record(stream_of(a));
        operators.end();
      }
    } catch (...) {
      // Copies may still read and write what is about to be freed.
      cudaDeviceSynchronize();
      for (auto& layer : tensors)
        for (memory::Allocation& t : layer) t.reset();
      spans.begin_step();
      allocator.set_activity("");
      throw;
    }
    allocator.set_activity("");
  }

  void wait(const Action& a) {
    if (a.waits.empty()) return;
    // What compute waits for can only be a copy.
    const bool exposed = a.stream == ScheduleStream::compute;
    if (exposed) open(Spans::Kind::exposed, compute);
    for (const EventId e : a.waits)
      check(cudaStreamWaitEvent(stream_of(a), events[static_cast<std::size_t>(e)].get(), 0));
    if (exposed) close(compute);
  }

  void perform(const Schedule& schedule, std::size_t i, StepOperators& operators) {
    const Action& a = schedule.actions[i];
    // Memory is allocated for the action that follows: that is what an out-of-memory interrupts.
    std::size_t served = i;
    while (schedule.actions[served].kind == Action::Kind::allocate && served + 1 < schedule.actions.size()) ++served;
    if (a.kind != Action::Kind::release) allocator.set_activity(activity(schedule.actions[served]));
    switch (a.kind) {
      case Action::Kind::allocate:
        tensor_of(a) =
            allocator.allocate(bytes_of(a), memory::Category::activation, compute,
                               owners[static_cast<std::size_t>(a.layer)][static_cast<std::size_t>(a.tensor)]);
        break;
      case Action::Kind::release:
        tensor_of(a).reset();
        break;
      case Action::Kind::offload:
      case Action::Kind::prefetch:
        copy(a);
        break;
      case Action::Kind::embed:
        operators.embed();
        break;
      case Action::Kind::forward:
        operators.forward(a.layer, a.op);
        break;
      case Action::Kind::recompute:
        operators.recompute(a.layer, a.op);
        cost.recompute_flops += spec.forward[static_cast<std::size_t>(a.op)].flops;
        break;
      case Action::Kind::head:
        operators.head();
        break;
      case Action::Kind::backward:
        operators.backward(a.layer, a.op);
        break;
      case Action::Kind::embed_backward:
        operators.embed_backward();
        break;
      case Action::Kind::optimizer:
        operators.optimizer();
        break;
    }
  }

  void copy(const Action& a) {
    const auto slot = static_cast<std::size_t>(slot_of(a));
    const auto bytes = static_cast<std::size_t>(bytes_of(a));
    const cudaStream_t stream = stream_of(a);
    open(Spans::Kind::copy, stream);
    if (a.kind == Action::Kind::offload) {
      check(cudaMemcpyAsync(arena->slot(slot), tensor_of(a).data(), bytes, cudaMemcpyDeviceToHost, stream));
      cost.offload_bytes += bytes_of(a);
    } else {
      check(cudaMemcpyAsync(tensor_of(a).data(), arena->slot(slot), bytes, cudaMemcpyHostToDevice, stream));
      cost.prefetch_bytes += bytes_of(a);
    }
    close(stream);
    if (a.kind == Action::Kind::prefetch && options.poison_host_slots)
      check(cudaLaunchHostFunc(
          stream,
          [](void* data) {
            const auto* p = static_cast<const Poison*>(data);
            std::memset(p->slot, 0xFF, p->bytes);
          },
          &poison[slot]));
  }

  std::string activity(const Action& a) const {
    std::string text = to_string(a.kind);
    if (a.layer >= 0) text += fmt::format(", layer {}", a.layer);
    if (a.tensor >= 0) text += ", " + spec.tensors[static_cast<std::size_t>(a.tensor)].name;
    if (a.op >= 0)
      text += ", " + (a.kind == Action::Kind::backward ? spec.backward[static_cast<std::size_t>(a.op)].name
                                                       : spec.forward[static_cast<std::size_t>(a.op)].name);
    return text;
  }

  void open(Spans::Kind kind, cudaStream_t stream) {
    if (options.measure) spans.open(kind, stream);
  }
  void close(cudaStream_t stream) {
    if (options.measure) spans.close(stream);
  }

  struct Poison {
    void* slot;
    std::size_t bytes;
  };

  const LayerSpec& spec;
  memory::Allocator& allocator;
  cudaStream_t compute;
  StoreOptions options;
  Stream copy_out{"copy-out"}, copy_in{"copy-in"};
  std::vector<Event> events;
  std::optional<memory::PinnedArena> arena;
  std::vector<std::vector<int>> slots;  // [layer][tensor] -> slot of the arena, -1: none
  std::vector<Poison> poison;           // of each slot
  std::vector<std::vector<memory::Allocation>> tensors;
  std::vector<std::vector<std::string>> owners;
  Spans spans;
  StepCost cost;
};

Store::Store(const LayerSpec& spec, const Plan& plan, memory::Allocator& allocator, cudaStream_t compute,
             StoreOptions options)
    : Store(spec, plan, training_schedule(plan, spec), allocator, compute, options) {}

Store::Store(const LayerSpec& spec, Plan plan, Schedule schedule, memory::Allocator& allocator, cudaStream_t compute,
             StoreOptions options)
    : spec_(spec),
      plan_(std::move(plan)),
      training_(std::move(schedule)),
      evaluation_(evaluation_schedule(spec_, training_.layers)),
      impl_(std::make_unique<Impl>(*this, allocator, compute, options)) {}

Store::~Store() = default;

void Store::run(StepOperators& operators) {
  impl_->execute(training_, operators);
}
void Store::evaluate(StepOperators& operators) {
  impl_->execute(evaluation_, operators);
}

void* Store::tensor(int layer, int tensor) const {
  const memory::Allocation& t = impl_->tensors.at(static_cast<std::size_t>(layer)).at(static_cast<std::size_t>(tensor));
  if (!t)
    throw std::logic_error(fmt::format("layer {} {} has no device memory now", layer,
                                       spec_.tensors[static_cast<std::size_t>(tensor)].name));
  return t.data();
}

StepCost Store::cost() const {
  StepCost cost = impl_->cost;
  cost.recompute_ms = impl_->spans.total_ms(Spans::Kind::recompute);
  cost.transfer_ms = impl_->spans.total_ms(Spans::Kind::copy);
  cost.exposed_transfer_ms = impl_->spans.total_ms(Spans::Kind::exposed);
  return cost;
}

cudaStream_t Store::copy_out() const {
  return impl_->copy_out.get();
}
cudaStream_t Store::copy_in() const {
  return impl_->copy_in.get();
}

std::int64_t Store::host_bytes() const {
  return impl_->arena->bytes();
}
std::int64_t Store::pinned_host_bytes() const {
  return impl_->arena->kind() == memory::HostMemory::pinned ? impl_->arena->bytes() : 0;
}

}  // namespace spillway::activation
