// progress.h - one line on a terminal that says what runs now, overwritten in place; nothing on a pipe or in a log.
#pragma once
#include <stdexcept>
#include <string>

namespace spillway::decision {

class Progress {
 public:
  Progress();
  ~Progress() { show(""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // "" clears the line.
  void show(const std::string& text);

 private:
  bool terminal_;
  std::size_t shown_ = 0;  // columns to clear
};

// Ctrl-C asks for a stop between steps instead of ending the program inside one; a second Ctrl-C ends it.
void catch_interrupts();
bool interrupted();
// Thrown when that was seen. what() says what was kept.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace spillway::decision
