// table.cpp - see table.h.
#include "decision/table.h"

#include <algorithm>
#include <sstream>

namespace spillway::decision {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::string Table::text() const {
  const std::size_t columns = rows_[0].size();
  std::vector<std::vector<std::string>> head;
  std::vector<std::size_t> width(columns, 0);
  std::size_t lines = 1;
  for (std::size_t c = 0; c < columns; ++c) {
    head.push_back(words_of(rows_[0][c]));
    lines = std::max(lines, head[c].size());
    for (const std::string& word : head[c]) width[c] = std::max(width[c], word.size());
    for (std::size_t r = 1; r < rows_.size(); ++r) width[c] = std::max(width[c], rows_[r][c].size());
  }
  std::string out;
  const auto line = [&](const auto& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string& value = cell(c);
      const std::string pad(width[c] - value.size(), ' ');
      text += (c ? "  " : "") + (c ? pad + value : value + pad);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  static const std::string kEmpty;
  for (std::size_t l = 0; l < lines; ++l)  // words stand on the rule: short heads begin lower
    line([&](std::size_t c) -> const std::string& {
      const std::size_t skip = lines - head[c].size();
      return l < skip ? kEmpty : head[c][l - skip];
    });
  std::size_t total = 0;
  for (std::size_t w : width) total += w + 2;
  out += std::string(total - 2, '-') + "\n";
  for (std::size_t r = 1; r < rows_.size(); ++r) line([&](std::size_t c) -> const std::string& { return rows_[r][c]; });
  return out;
}

}  // namespace spillway::decision
