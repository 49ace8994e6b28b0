// schedule.h - a plan written out for one whole step: an explicit list of actions, each with its stream and the events
// it waits for and records. It is data: it can be printed (explain), checked without running (schedule_check), run
// (store), and later priced (forecast). The list is in the host's order, which is also the allocator's order.
#pragma once
#include <string>
#include <vector>

#include "runtime/activation/plan.h"

namespace spillway::activation {

enum class ScheduleStream : std::uint8_t { compute, copy_out, copy_in };
const char* to_string(ScheduleStream s);
inline constexpr int kScheduleStreams = 3;

// An event is recorded once a step and named by its index; -1 is none.
using EventId = int;

struct Action {
  enum class Kind : std::uint8_t {
    allocate,   // device memory for (layer, tensor), in the order of the compute stream
    embed,      // writes tensor 0 of layer 0
    forward,    // forward operator `op` of `layer`
    offload,    // copies (layer, tensor) device -> host
    release,    // frees (layer, tensor)'s device memory; its waits order the next writer after the last reader
    head,       // reads tensor 0 of layer == layers; loss and, when training, its gradient
    prefetch,   // copies (layer, tensor) host -> device
    recompute,  // forward operator `op` of `layer` again
    backward,   // backward operator `op` of `layer`
    embed_backward,
    optimizer,
  } kind;
  int layer = -1, tensor = -1, op = -1;
  ScheduleStream stream = ScheduleStream::compute;
  std::vector<EventId> waits{};  // waited for by `stream` before the action
  EventId records = -1;          // recorded on `stream` after the action
};
const char* to_string(Action::Kind k);

struct Schedule {
  std::vector<Action> actions;
  int events = 0;  // ids are 0 .. events-1
  int layers = 0;
};

// One training step under `plan`.
Schedule training_schedule(const Plan& plan, const LayerSpec& spec);
// Loss only: nothing is saved, everything is released after its last forward use. No plan.
Schedule evaluation_schedule(const LayerSpec& spec, int layers);

// One line an action, for people: "copy-out  offload  layer 3 gate   waits e12  records e13".
std::string format_action(const Action& action, const LayerSpec& spec);

}  // namespace spillway::activation
