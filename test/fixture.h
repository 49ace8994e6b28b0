// fixture.h - what test files include instead of Boost's own header, and where the fixtures lie.
#pragma once
#define BOOST_TEST_DYN_LINK
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

namespace spillway::test {
// test/fixtures, from the repository's root, where `make test` runs every suite.
inline std::filesystem::path fixtures() {
  return "test/fixtures";
}
}  // namespace spillway::test
