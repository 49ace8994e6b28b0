// info_command.cpp - `spillway info`: what this program runs on and what it knows by name; and `spillway verify`, which
// is a call into the model.
#include <fmt/format.h>

#include <iostream>

#include "decision/commands.h"
#include "decision/provenance.h"
#include "decision/table.h"
#include "model/verify.h"
#include "runtime/memory/caching_allocator.h"

namespace spillway::decision {

int info() {
  const DeviceInfo device = require_device();
  fmt::print("device: {}, {:.0f} MiB\n", device.name, static_cast<double>(device.memory_bytes) / (1024.0 * 1024.0));
  if (device.is_host)
    fmt::print(
        "a CPU under the CUDA runtime's own names (runtime/hostcuda): bytes as on a GPU, times of this processor\n");
  else
    fmt::print("compute capability {}.{}, CUDA runtime {}, driver {}\n", device.compute_major, device.compute_minor,
               cuda_version(device.runtime_version), cuda_version(device.driver_version));
  Table models({"model", "parameters", "layers", "width", "heads", "kv heads", "ffn", "vocabulary", "positions"});
  for (const std::string& name : model::preset_names()) {
    const model::Config c = model::preset(name);
    models.row({name, fmt::format("{:.1f} M", static_cast<double>(c.parameters()) / 1e6), std::to_string(c.layers),
                std::to_string(c.d), std::to_string(c.heads), std::to_string(c.kv_heads), std::to_string(c.ffn),
                std::to_string(c.vocab), std::to_string(c.max_positions)});
  }
  fmt::print("\n{}\nstrategies: {}\n", models.text(), fmt::join(activation::strategy_names(), ", "));
  return 0;
}

int verify(const VerifyCommand& command) {
  require_device();
  model::VerifyOptions options;
  options.strategy = command.strategy;
  memory::CudaDeviceMemory memory;
  memory::CachingAllocator allocator(memory);
  if (!model::verify(command.model, command.golden, options, allocator, std::cout))
    throw Error("not all golden numbers are within tolerance");
  return 0;
}

}  // namespace spillway::decision
