// decode.h - from CUPTI's records to a profile. Records come in no order; so correlations are collected first, then
// every record is read with the range and the declared work of its call at hand. Plain bytes in, plain data out: no
// device is asked anything but names.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/activity.h"

namespace spillway::profiler {

struct RecordBytes {
  std::uint8_t* data;  // 8-byte aligned; not changed
  std::size_t bytes;
};
struct Recording {
  std::vector<RecordBytes> buffers;
  std::size_t dropped = 0;          // that CUPTI had no buffer for
  Interval window;                  // of the recording, on the records' clock
  std::vector<RangeSpan> ranges;    // on the records' clock; without an end: still open at the window's
  std::vector<DeclaredWork> works;  // by external id - 1
  std::vector<StreamName> streams;
};

// Everything but `tool`. Times are from the window's begin. A step is a range of the name kStepRange with the device
// work that was issued in it.
Profile decode(const Recording& recording);

}  // namespace spillway::profiler
