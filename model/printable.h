// printable.h - text out of somebody's file, made fit to stand in an error's one line: control characters are escaped,
// and a name of a megabyte is cut short. Without it a tensor called "a\nb" would break the rule that every message is
// one line.
#pragma once
#include <string>
#include <string_view>

namespace spillway::model {

inline std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xc0) == 0x80;  // a UTF-8 sequence that must not be cut
    if (out.size() >= kLongest && !continues) return out + "...";
    if (byte >= 0x20 && byte != 0x7f)
      out += c;
    else
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

}  // namespace spillway::model
