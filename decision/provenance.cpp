// provenance.cpp - see provenance.h.
#include "decision/provenance.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>

namespace spillway::decision {
namespace {

// What a command prints, without the last newline; "" when it fails.
std::string output_of(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "r"), ::pclose);
  if (!pipe) return "";
  std::string text;
  std::array<char, 256> part;
  while (std::fgets(part.data(), part.size(), pipe.get())) text += part.data();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string command_line(int argc, const char* const* argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789-_./:,=+@%") == std::string::npos;
    if (i > 0) line += ' ';
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

std::string one_line(const std::string& message) {
  std::string line;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return line;
}

// A git that hangs, on a network drive or a prompt, must not hold up a record.
std::string git_commit() {
  const std::string hash = output_of("timeout 10 git rev-parse HEAD 2>/dev/null");
  if (hash.empty()) return "";
  return output_of("timeout 10 git status --porcelain --untracked-files=no 2>/dev/null").empty() ? hash
                                                                                                 : hash + "-dirty";
}

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_version() {
  std::ifstream info("/proc/driver/nvidia/version");  // "NVRM version: NVIDIA UNIX ... Kernel Module  580.65.06  ..."
  for (std::string word; info >> word;)
    if (word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != std::string::npos) return word;
  return "";
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "";
}

}  // namespace spillway::decision
