// check_run.h - the four questions that PROTOCOL.md asks of a run, each answered from the records alone: every figure
// that can be computed again from what a record holds is, and a record that contradicts itself or its source is a no.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace spillway::decision {

struct Answer {
  std::string question;
  bool yes = false;
  std::string reason;  // why not; or, of a yes, what was seen
};

struct RunCheck {
  struct File {
    std::string name;
    std::uintmax_t bytes;
  };
  std::vector<File> files;      // of the folder, by name
  std::vector<Answer> answers;  // in the protocol's order: 73, 76, 75, 74
  bool all_hold() const;
};

// Error when `folder` is not one. A record that is missing or cannot be read is a no, with the reason.
RunCheck check_run(const std::filesystem::path& folder);

}  // namespace spillway::decision
