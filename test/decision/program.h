// program.h - the built program as tests run it: its arguments in, its status and what it printed out; and what every
// record that it writes must keep.
#pragma once
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "test/decision/temporary_folder.h"
#include "test/fixture.h"

namespace spillway::test {

struct Result {
  int status;
  std::string out, err;
};

inline Result spillway_run(const std::string& arguments) {
  const char* program = std::getenv("SPILLWAY_BIN");
  BOOST_REQUIRE_MESSAGE(program && std::filesystem::exists(program),
                        "SPILLWAY_BIN must name the built program (make test sets it)");
  const TemporaryFolder tmp;
  const std::filesystem::path err = tmp.path() / "err";
  const std::string command = fmt::format("{} {} 2>{}", program, arguments, err.string());
  FILE* pipe = ::popen(command.c_str(), "r");
  Result r{};
  std::array<char, 512> part;
  while (std::fgets(part.data(), part.size(), pipe)) r.out += part.data();
  r.status = WEXITSTATUS(::pclose(pipe));
  std::ifstream in(err);
  r.err.assign(std::istreambuf_iterator<char>(in), {});
  return r;
}

inline void check_refused(const std::string& arguments, const std::string& says) {
  const Result r = spillway_run(arguments);
  BOOST_TEST_CONTEXT("spillway " << arguments << " printed: " << r.err) {
    BOOST_TEST(r.status != 0);
    BOOST_TEST(r.status < 128);
    BOOST_TEST(r.err.find(says) != std::string::npos);
    BOOST_TEST(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  }
}

inline nlohmann::json read(const std::filesystem::path& file) {
  return nlohmann::json::parse(std::ifstream(file));
}

// Every *_mb of the record that is a number has its exact bytes beside it.
inline void check_bytes_beside_mebibytes(const nlohmann::json& node) {
  if (node.is_array())
    for (const auto& child : node) check_bytes_beside_mebibytes(child);
  if (!node.is_object()) return;
  for (const auto& [key, value] : node.items()) {
    check_bytes_beside_mebibytes(value);
    if (!key.ends_with("_mb")) continue;
    const std::string bytes = key.substr(0, key.size() - 2) + "bytes";
    BOOST_TEST_CONTEXT(key) {
      BOOST_REQUIRE(node.contains(bytes));
      BOOST_TEST(value.is_null() == node[bytes].is_null());
      if (value.is_number()) BOOST_TEST(std::abs(value.get<double>() * 1048576.0 - node[bytes].get<double>()) <= 1);
    }
  }
}

}  // namespace spillway::test
