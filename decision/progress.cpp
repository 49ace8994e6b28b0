// progress.cpp - see progress.h.
#include "decision/progress.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace spillway::decision {
namespace {
volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}
}  // namespace

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::show(const std::string& text) {
  if (!terminal_ || (text.empty() && shown_ == 0)) return;
  std::fprintf(stderr, "\r%s\r%s", std::string(shown_, ' ').c_str(), text.c_str());
  std::fflush(stderr);
  shown_ = text.size();
}

void catch_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}
bool interrupted() {
  return g_interrupted != 0;
}

}  // namespace spillway::decision
