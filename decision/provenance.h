// provenance.h - what every record says of where it comes from: the code, the command, the machine.
#pragma once
#include <string>
#include <vector>

#include "runtime/cuda.h"

namespace spillway::decision {

// The command as typed, quoted where a shell would need it.
std::string command_line(int argc, const char* const* argv);
// Control characters escaped: whatever a path or a file put into a message, it stays one line.
std::string one_line(const std::string& message);
// HEAD's hash of the repository in the current folder, "-dirty" appended when tracked files differ; "" outside one.
std::string git_commit();
// "13.0" from 13000.
std::string cuda_version(int version);
// The NVIDIA driver's own version ("580.65.06"); "" where there is none.
std::string driver_version();
// The processor's name as the system gives it; "" where it does not.
std::string processor_name();

}  // namespace spillway::decision
