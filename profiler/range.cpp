// range.cpp - see range.h and range_log.h. CUPTI keeps a stack of external ids for each thread; a range pushes its id
// and pops it. Declared work pushes its id too and takes it back at the next declaration or range boundary, so that
// kernels which share a declaration (a matrix product in parts) share it, and what comes behind them does not.
#include "profiler/range.h"

#include <cupti.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

#include "kernels/work.h"
#include "profiler/range_log.h"

namespace spillway::profiler {
namespace {

std::atomic<RangeLog*> g_log{nullptr};
std::atomic<std::uint64_t> g_next_id{1};

// This thread's innermost range, and whether a declaration is on top of it.
thread_local std::uint64_t t_range = 0;
thread_local bool t_declared = false;

void drop_declaration() {
  if (!t_declared) return;
  cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, nullptr);
  t_declared = false;
}

void push_nvtx(const char* name, int layer) {
  if (layer < 0) {
    nvtxRangePushA(name);
    return;
  }
  constexpr std::size_t kLongest = 64;
  char text[kLongest];
  *fmt::format_to_n(text, kLongest - 1, "layer {}{}{}", layer, *name ? " " : "", name).out = '\0';
  nvtxRangePushA(text);
}

}  // namespace

std::uint64_t clock_ns() {
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count());
}

std::uint32_t thread_number() {
  static thread_local const auto number = static_cast<std::uint32_t>(::gettid());
  return number;
}

// ---- Range ----------------------------------------------------------------------------------------------------------

Range::Range(Phase phase, const char* name, int layer) {
  push_nvtx(name, layer);
  RangeLog* log = g_log.load(std::memory_order_acquire);
  if (!log) return;
  drop_declaration();
  id_ = log->begin(phase, name, layer);
  cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id_);
}

Range::~Range() {
  nvtxRangePop();
  if (id_ == 0) return;
  // Also when the recorder is gone by now: CUPTI's stack outlives it.
  drop_declaration();
  cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, nullptr);
  if (RangeLog* log = g_log.load(std::memory_order_acquire)) log->end(id_);
}

// ---- RangeLog -------------------------------------------------------------------------------------------------------

RangeLog::RangeLog() : first_id_(g_next_id.load()) {
  RangeLog* none = nullptr;
  if (!g_log.compare_exchange_strong(none, this, std::memory_order_acq_rel))
    throw std::logic_error("two recorders run at once");
  kernels::set_launch_listener(
      [](void* self, const kernels::Work& work, cudaStream_t) {
        static_cast<RangeLog*>(self)->declare(work.name, work.flops, work.bytes);
      },
      this);
}

RangeLog::~RangeLog() {
  kernels::set_launch_listener(nullptr, nullptr);
  drop_declaration();
  t_range = 0;
  g_log.store(nullptr, std::memory_order_release);
}

std::uint64_t RangeLog::begin(Phase phase, const char* name, int layer) {
  RangeSpan span;
  span.id = g_next_id++;
  span.parent = t_range >= first_id_ ? t_range : 0;
  span.phase = phase;
  span.layer = layer;
  span.name = layer < 0 ? name : fmt::format("layer {}{}{}", layer, *name ? " " : "", name);
  span.thread = thread_number();
  t_range = span.id;
  const std::lock_guard lock(mutex_);
  span.host.begin = static_cast<Nanoseconds>(clock_ns());
  const std::uint64_t id = span.id;
  ranges_.push_back(std::move(span));
  return id;
}

void RangeLog::end(std::uint64_t id) {
  const auto now = static_cast<Nanoseconds>(clock_ns());
  const std::lock_guard lock(mutex_);
  // The one that ends began not long ago.
  for (auto it = ranges_.rbegin(); it != ranges_.rend(); ++it)
    if (it->id == id) {
      it->host.end = now;
      t_range = it->parent;
      return;
    }
}

void RangeLog::declare(const char* name, std::int64_t flops, std::int64_t bytes) {
  drop_declaration();
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    works_.push_back({name, flops, bytes});
    id = works_.size();
  }
  cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, id);
  t_declared = true;
}

std::vector<RangeSpan> RangeLog::ranges() const {
  const std::lock_guard lock(mutex_);
  return ranges_;
}
std::vector<DeclaredWork> RangeLog::works() const {
  const std::lock_guard lock(mutex_);
  return works_;
}

}  // namespace spillway::profiler
