// planted.h - shows that a planted fault would be noticed. A plain build must see a wrong result. A sanitizer must
// report it: the program runs the same test case again in a process of its own, whose report is then read. (Not a fork:
// a sanitizer's bookkeeping of threads does not survive one.)
#pragma once
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <regex>
#include <string>

#include "test/fixture.h"

namespace spillway::test {

// Runs `faulty` where it may do harm and expects `report`, a regular expression, in what the process printed.
inline void expect_report(const std::string& report, const std::function<void()>& faulty) {
  constexpr const char* kInside = "SPILLWAY_PLANTED";
  if (std::getenv(kInside)) {
    faulty();
    BOOST_TEST(true);
    return;
  }
  const std::string command = std::string(kInside) + "=1 " + std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --run_test=" + boost::unit_test::framework::current_test_case().full_name() + " 2>&1";
  const std::regex expected(report);
  std::string output;
  // Where the scheduler happens to order the threads, a race may go unseen: a few tries.
  for (int attempt = 0; attempt < 5 && !std::regex_search(output, expected); ++attempt) {
    output.clear();
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 512> part;
    while (std::fgets(part.data(), part.size(), pipe)) output += part.data();
    ::pclose(pipe);
  }
  BOOST_TEST_CONTEXT(output) BOOST_TEST(std::regex_search(output, expected));
}

// `right` computes with the fault in place and says whether the result was right all the same.
inline void expect_caught(const std::function<bool()>& right) {
#if defined(__SANITIZE_THREAD__)
  expect_report("ThreadSanitizer: data race", [&] { right(); });
#else
  bool caught = false;
  for (int attempt = 0; attempt < 5 && !caught; ++attempt) caught = !right();
  BOOST_TEST(caught);
#endif
}

}  // namespace spillway::test
