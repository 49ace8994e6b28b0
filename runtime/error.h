// error.h - the exceptions of Spillway. What a person caused (bad input) and what the machine ran out of are different
// types, because the first ends the program with one line and the second is a measured outcome (an `oom` row).
// Every message is one line: what is wrong, where, and what would be right.
#pragma once
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace spillway {

// Bad input, or a request that this build or device cannot serve. main prints it and exits with status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// a * b and a + b of non-negative sizes, or Error naming `what` when the result does not fit in 63 bits.
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t r = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r))
    throw Error(std::string(what) + ": " + std::to_string(a) + " x " + std::to_string(b) + " does not fit in 63 bits");
  return r;
}
inline std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t r = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &r))
    throw Error(std::string(what) + ": " + std::to_string(a) + " + " + std::to_string(b) + " does not fit in 63 bits");
  return r;
}

}  // namespace spillway
