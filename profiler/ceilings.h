// ceilings.h - what this device reaches at best, measured once by programs that do nothing else: a matrix product, a
// copy within the device's memory, a copy over the link each way. The roofline's roofs.
#pragma once
#include "profiler/analysis.h"

namespace spillway::profiler {

enum class CeilingType : std::uint8_t { float32, tf32, bfloat16 };

// Each the best of a few timings by events (median of the better half): TFLOP/s of a square product of the type, GB/s
// of a device-to-device copy (read and written bytes), GB/s of pinned copies. Takes about a second and 200 MiB of
// device memory; what the device has no room for is absent.
Ceilings measure_ceilings(CeilingType type);

}  // namespace spillway::profiler
