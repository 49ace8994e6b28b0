// recorder.h - records what the device does, through CUPTI, while it lives: begin one, train a step or a few, stop it,
// and read the profile. On a GPU or on the host device, through the same calls.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "profiler/activity.h"

namespace spillway::profiler {

class Recorder {
 public:
  // Waits for the device and begins. Where that is not possible (no device, another profiler owns CUPTI, a CUPTI that
  // is known to crash) nothing is recorded, the program goes on, and unavailable() says why. One at a time:
  // std::logic_error.
  Recorder();
  ~Recorder();  // what was not stopped is thrown away
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const std::string& unavailable() const;
  // For traces: what a stream is for.
  void name_stream(cudaStream_t stream, std::string name);
  // Nanoseconds since the recording began, the profile's origin. Outlives the recorder.
  std::function<Nanoseconds()> clock() const;
  // Waits for the device, ends the recording and decodes it. Once.
  Profile stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::profiler
