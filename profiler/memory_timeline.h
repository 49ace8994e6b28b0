// memory_timeline.h - every allocation and free of a stretch of a run in order, with what it was for, whose it was, and
// what stood there after it: the allocator's ledger as plain data. And what stands at its peak, which is the answer to
// "why did it not fit".
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "profiler/activity.h"
#include "runtime/memory/allocator.h"

namespace spillway::profiler {

// One event of the ledger, owned (the ledger's own are valid during the call only).
struct MemoryPoint {
  memory::MemoryEvent::Kind kind;
  memory::Category category;
  std::int64_t bytes = 0, requested = 0;
  std::uint64_t address = 0;
  std::string owner;  // of an allocation and of its free
  std::uint64_t stream = 0;
  Nanoseconds at = 0;                        // host time, on the clock that begin() was given
  std::int64_t allocated = 0, reserved = 0;  // after it
  memory::CategoryBytes by_category{};       // after it; sums to allocated
};
// "allocate", "free", "segment_allocate", "segment_release", "out_of_memory", "use", "begin_step", "end_step".
const char* to_string(memory::MemoryEvent::Kind kind);

// A block that is in somebody's hands.
struct LiveBlock {
  std::uint64_t address = 0;
  std::int64_t bytes = 0, requested = 0;
  memory::Category category{};
  std::string owner;
  std::uint64_t stream = 0;
  std::int64_t serial = 0;  // of the allocation; 0: not known
};

struct MemoryTimeline {
  std::vector<LiveBlock> standing;            // when the recording began, by address
  std::vector<MemoryPoint> points;            // in order
  std::int64_t dropped = 0;                   // events behind the last point, for which there was no room
  std::vector<memory::SegmentView> segments;  // when the recording ended
  std::vector<LiveBlock> left;                // in somebody's hands then, by address
};

// Listens to an allocator from its making, and between begin() and end(). Made right after the allocator it knows every
// block's owner; those that it did not see come it calls "(before the recording)".
class MemoryRecorder {
 public:
  explicit MemoryRecorder(memory::Allocator& allocator, std::size_t most_points = 4'000'000);
  MemoryRecorder(const MemoryRecorder&) = delete;
  MemoryRecorder& operator=(const MemoryRecorder&) = delete;

  // Hears nothing more until begin(), and costs nothing meanwhile.
  void pause() { listening_.stop(); }
  // Keeps what happens from now on.
  void begin(std::function<Nanoseconds()> clock);
  // What was kept since begin(). Pauses.
  MemoryTimeline end();

 private:
  void listen();
  void hear(const memory::MemoryEvent& event, const memory::Stats& stats);

  memory::Allocator& allocator_;
  std::size_t most_points_;
  std::map<std::uint64_t, LiveBlock> live_;
  std::function<Nanoseconds()> clock_;  // empty: not recording
  MemoryTimeline timeline_;
  memory::Allocator::Listening listening_;
};

// What stands when most is allocated for the first time.
struct Peak {
  std::ptrdiff_t index = -1;  // of the point; -1: before the first
  Nanoseconds at = 0;
  std::int64_t allocated = 0, reserved = 0;
  memory::CategoryBytes by_category{};
  std::vector<LiveBlock> blocks;  // largest first
};
// Of a timeline without points: what stood when it began; reserved is 0 then.
Peak peak_of(const MemoryTimeline& timeline);

// ---- exports --------------------------------------------------------------------------------------------------------

// schema_version memory-timeline/v1: the categories, the peak with all that stands there, every point.
std::string to_json(const MemoryTimeline& timeline, const std::string& strategy, const std::string& evidence_level);
// A line a point under a line of names. Owners are quoted as RFC 4180 has it.
std::string to_csv(const MemoryTimeline& timeline);
// The snapshot that PyTorch's memory viewer opens (pytorch.org/memory_viz), a pickle of protocol 4 with the keys of
// torch.cuda.memory._snapshot(). Owner and category stand where Python's frames would.
std::string to_pickle(const MemoryTimeline& timeline);

}  // namespace spillway::profiler
