// bad_input.h - what tests of bad input share: files with whatever content, and the check that they are refused as a
// person should be told: an Error, in one line that names what is wrong.
#pragma once
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/error.h"
#include "test/decision/temporary_folder.h"
#include "test/fixture.h"

namespace spillway::test {

inline std::filesystem::path write_file(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file;
}

// What `action` is refused with; nothing when it is not. Any exception but Error passes through and fails the test.
inline std::optional<std::string> refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return std::nullopt;
}

inline bool is_one_line(const std::string& message) {
  return !message.empty() && message.find_first_of("\r\n") == std::string::npos;
}

inline void check_refused(const std::function<void()>& action, std::initializer_list<std::string_view> says) {
  const std::optional<std::string> message = refusal(action);
  BOOST_REQUIRE_MESSAGE(message, "not refused; expected an error that says " << *says.begin());
  BOOST_TEST(is_one_line(*message), *message);
  for (const std::string_view part : says)
    BOOST_TEST(message->find(part) != std::string::npos, *message << " does not say " << part);
}

}  // namespace spillway::test
