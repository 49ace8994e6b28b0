// planted.h - shows that a planted fault would be noticed. The fault runs in a child process: a plain build must see a
// wrong result, a sanitizer must end the child with its report.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "test/fixture.h"

namespace spillway::test {

// How a child process ended and what it printed.
struct ChildResult {
  int status = 0;  // of waitpid
  std::string output;
};

// Runs `action` in a forked child, which exits with what it returns. The parent must have no threads that the child
// would need: a forked child has only its own.
inline ChildResult run_in_child(const std::function<int()>& action) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::_exit(action());
  }
  ::close(ends[1]);
  ChildResult result;
  char part[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;)
    result.output.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  ::waitpid(child, &result.status, 0);
  return result;
}

// `right` computes with the fault in place and says whether the result was right all the same.
inline void expect_caught(const std::function<bool()>& right) {
  bool caught = false;
  for (int attempt = 0; attempt < 5 && !caught; ++attempt) {
#if defined(__SANITIZE_THREAD__)
    const auto child = [&] { return static_cast<int>(right()) * 0; };
    caught = run_in_child(child).output.find("ThreadSanitizer: data race") != std::string::npos;
#else
    caught = !right();
#endif
  }
  BOOST_TEST(caught);
}

}  // namespace spillway::test
