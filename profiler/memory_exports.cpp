// memory_exports.cpp - a memory timeline for other programs: JSON for ours, CSV for spreadsheets, and the pickle that
// PyTorch's memory viewer opens.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "profiler/memory_timeline.h"
#include "profiler/pickle_writer.h"

namespace spillway::profiler {
namespace {

using Json = nlohmann::ordered_json;
using Kind = memory::MemoryEvent::Kind;

double microseconds_of(Nanoseconds ns) {
  return static_cast<double>(ns) / 1e3;
}

Json by_category(const memory::CategoryBytes& bytes) {
  Json j;
  for (std::size_t i = 0; i < memory::kCategories; ++i) j[std::string(memory::kCategoryNames[i]) + "_bytes"] = bytes[i];
  return j;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

// ---- the viewer's snapshot ------------------------------------------------------------------------------------------

// What the viewer shows of an allocation: the owner as the innermost frame, its category around it.
void frames(PickleWriter& w, const std::string& owner, memory::Category category) {
  w.text("frames").begin_list();
  for (const std::string& name : {owner, std::string(memory::to_string(category))})
    w.begin_dict().item("filename", "spillway").item("line", std::int64_t{0}).item("name", name).end_dict();
  w.end_list();
}

const char* state_name(memory::BlockState state) {
  switch (state) {
    case memory::BlockState::allocated:
      return "active_allocated";
    case memory::BlockState::pending:
      return "active_pending_free";
    default:
      return "inactive";
  }
}

void segment(PickleWriter& w, const memory::SegmentView& s, const std::map<std::uint64_t, const LiveBlock*>& owners) {
  const auto base = reinterpret_cast<std::uintptr_t>(s.address);
  std::int64_t allocated = 0, active = 0, requested = 0;
  for (const auto& b : s.blocks) {
    if (b.state == memory::BlockState::allocated) allocated += b.bytes, requested += b.requested;
    if (b.state != memory::BlockState::free) active += b.bytes;
  }
  w.begin_dict().item("device", std::int64_t{0}).text("address").address(base);
  w.item("total_size", s.bytes).item("allocated_size", allocated).item("active_size", active);
  w.item("requested_size", requested).text("stream").address(reinterpret_cast<std::uintptr_t>(s.stream));
  w.item("segment_type", s.small ? "small" : "large").text("segment_pool_id").begin_list();
  w.integer(0).integer(0).end_list().text("is_expandable").boolean(false).text("frames").begin_list().end_list();
  w.text("blocks").begin_list();
  for (const auto& b : s.blocks) {
    const std::uint64_t address = base + static_cast<std::uint64_t>(b.offset);
    w.begin_dict().text("address").address(address).item("size", b.bytes).item("requested_size", b.requested);
    w.item("state", state_name(b.state));
    const auto owner = owners.find(address);
    if (b.state == memory::BlockState::allocated && owner != owners.end())
      frames(w, owner->second->owner, b.category);
    else
      w.text("frames").begin_list().end_list();
    w.end_dict();
  }
  w.end_list().end_dict();
}

const char* action(Kind kind) {
  switch (kind) {
    case Kind::allocate:
      return "alloc";
    case Kind::free:
      return "free_completed";
    case Kind::segment_allocate:
      return "segment_alloc";
    case Kind::segment_release:
      return "segment_free";
    default:  // the recorder keeps no others
      return "oom";
  }
}

void entry(PickleWriter& w, const char* name, const MemoryPoint& p) {
  w.begin_dict().item("action", name);
  // An OOM has no address; the viewer reads what was free on the device there, which this ledger does not hold.
  if (p.kind == Kind::out_of_memory)
    w.item("device_free", std::int64_t{0});
  else
    w.text("addr").address(p.address);
  w.item("size", p.bytes).text("stream").address(p.stream).item("time_us", p.at / 1000);
  frames(w, p.owner, p.category);
  w.end_dict();
}

}  // namespace

std::string to_json(const MemoryTimeline& timeline, const std::string& strategy, const std::string& evidence_level) {
  Json j;
  j["schema_version"] = "memory-timeline/v1";
  j["strategy"] = strategy;
  j["evidence_level"] = evidence_level;
  j["categories"] = memory::kCategoryNames;
  const Peak peak = peak_of(timeline);
  Json owners = Json::array();
  for (const LiveBlock& b : peak.blocks)
    owners.push_back({{"owner", b.owner},
                      {"category", memory::to_string(b.category)},
                      {"bytes", b.bytes},
                      {"requested_bytes", b.requested}});
  j["peak"] = {{"index", peak.index},
               {"at_us", microseconds_of(peak.at)},
               {"allocated_bytes", peak.allocated},
               {"reserved_bytes", peak.reserved},
               {"by_category", by_category(peak.by_category)},
               {"owners", owners}};
  j["dropped"] = timeline.dropped;
  Json points = Json::array();
  for (const MemoryPoint& p : timeline.points)
    points.push_back({{"at_us", microseconds_of(p.at)},
                      {"kind", to_string(p.kind)},
                      {"owner", p.owner},
                      {"category", memory::to_string(p.category)},
                      {"bytes", p.bytes},
                      {"requested", p.requested},
                      {"address", p.address},
                      {"stream", p.stream},
                      {"allocated", p.allocated},
                      {"reserved", p.reserved},
                      {"by_category", p.by_category}});
  j["points"] = points;
  return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_csv(const MemoryTimeline& timeline) {
  std::string out = "at_us,kind,owner,category,bytes,requested,address,stream,allocated,reserved";
  for (const char* name : memory::kCategoryNames) out += fmt::format(",{}_bytes", name);
  out += '\n';
  for (const MemoryPoint& p : timeline.points) {
    out +=
        fmt::format("{:.3f},{},{},{},{},{},{},{},{},{}", microseconds_of(p.at), to_string(p.kind), quoted(p.owner),
                    memory::to_string(p.category), p.bytes, p.requested, p.address, p.stream, p.allocated, p.reserved);
    for (const std::int64_t bytes : p.by_category) out += fmt::format(",{}", bytes);
    out += '\n';
  }
  return out;
}

std::string to_pickle(const MemoryTimeline& timeline) {
  std::map<std::uint64_t, const LiveBlock*> owners;
  for (const LiveBlock& b : timeline.left) owners[b.address] = &b;
  PickleWriter w;
  w.begin_dict().text("segments").begin_list();
  for (const auto& s : timeline.segments) segment(w, s, owners);
  w.end_list().text("device_traces").begin_list().begin_list();
  for (const MemoryPoint& p : timeline.points) {
    // The viewer knows a free in two steps, asked for and done; here both are one.
    if (p.kind == Kind::free) entry(w, "free_requested", p);
    entry(w, action(p.kind), p);
  }
  w.end_list().end_list();
  w.text("allocator_settings").begin_dict().end_dict();
  w.text("external_annotations").begin_list().end_list();
  return w.end_dict().finish();
}

}  // namespace spillway::profiler
