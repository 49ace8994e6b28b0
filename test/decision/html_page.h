// html_page.h - a page read back as a browser would, as far as tests of the report need: its tags with their attributes
// and the text that follows each, and whether they nest.
#pragma once
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace spillway::test {

inline std::string unescaped(const std::string& text) {
  static const std::map<std::string, std::string> kNames = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"#39", "'"}};
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = text[i] == '&' ? text.find(';', i) : std::string::npos;
    if (text[i] != '&') {
      out += text[i];
    } else if (end == std::string::npos || !kNames.contains(text.substr(i + 1, end - i - 1))) {
      throw std::runtime_error("a bare & in: " + text.substr(0, 80));
    } else {
      out += kNames.at(text.substr(i + 1, end - i - 1));
      i = end;
    }
  }
  return out;
}

struct Tag {
  std::string name;  // "/p" where it ends
  std::map<std::string, std::string> attributes;
  std::string text;  // up to the next tag, unescaped
};

// Throws where the page is not well formed: a tag without its end, an attribute without quotes or twice, ends in
// another order than begins.
inline std::vector<Tag> tags_of(const std::string& page) {
  static const std::set<std::string> kVoid = {"meta", "br", "!doctype"};
  std::vector<Tag> tags;
  std::vector<std::string> open;
  const auto fail = [&](const std::string& why, std::size_t at) {
    throw std::runtime_error(why + " at: " + page.substr(at, 120));
  };
  for (std::size_t at = page.find('<'); at != std::string::npos;) {
    const std::size_t begin = at++;
    Tag tag;
    while (at < page.size() && page[at] != '>' && page[at] != ' ' && (page[at] != '/' || at == begin + 1))
      tag.name += page[at++];
    bool closed = false;
    while (at < page.size() && page[at] != '>') {
      if (page[at] == ' ') {
        ++at;
      } else if (page[at] == '/') {
        closed = true;
        ++at;
      } else {
        const std::size_t end = page.find_first_of("= >", at);
        const std::string key = page.substr(at, end - at);
        if (tag.attributes.contains(key)) fail("an attribute twice", begin);
        at = end;
        std::string value;
        if (at < page.size() && page[at] == '=') {
          if (page[at + 1] != '"') fail("an attribute without quotes", begin);
          const std::size_t quote = page.find('"', at + 2);
          if (quote == std::string::npos) fail("a quote that does not end", begin);
          value = unescaped(page.substr(at + 2, quote - at - 2));
          at = quote + 1;
        }
        tag.attributes[key] = value;
      }
    }
    if (at >= page.size()) fail("a tag that does not end", begin);
    ++at;
    if (tag.name.starts_with('/')) {
      if (open.empty() || open.back() != tag.name.substr(1)) fail("ends in another order than it begins", begin);
      open.pop_back();
    } else if (!closed && !kVoid.contains(tag.name)) {
      open.push_back(tag.name);
    }
    const std::size_t next = page.find('<', at);
    const std::string text = page.substr(at, next == std::string::npos ? next : next - at);
    tag.text = tag.name == "style" ? text : unescaped(text);
    tags.push_back(tag);
    at = next;
  }
  if (!open.empty()) throw std::runtime_error(open.back() + " has no end");
  return tags;
}

}  // namespace spillway::test
