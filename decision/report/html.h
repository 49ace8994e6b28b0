// html.h - the pieces of HTML that sections share. Everything that comes from a record is escaped here or by figures.h.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "decision/report/node.h"

namespace spillway::decision::html {

// A section of the page. `lead`: markup, one or two sentences; may be empty.
std::string section(std::string_view id, std::string_view title, const std::string& lead, const std::string& body);
// What is not there, and why. `text`: markup.
std::string note(const std::string& text);
// accept, tune, reject: a word and a sign, so that colour carries nothing alone. Other words are shown as they are.
std::string chip(const std::string& decision);
// "memory_saving_below_threshold" as a sentence has it.
std::string words(const std::string& code);
// Scrolls by itself where the page is too narrow. The first column is the rows' name.
struct Column {
  Column(const char* t, bool words = false) : title(t), text(words) {}  // NOLINT: a title is a column of numbers
  std::string title;                                                    // markup
  bool text;                                                            // else numbers, to the right
};
std::string table(const std::vector<Column>& head, const std::string& rows, std::string_view label);
std::string figure_box(const std::string& plot, const std::string& caption);
std::string details(const std::string& summary, const std::string& body);

struct Key {
  std::string css, name;
};
std::string legend(const std::vector<Key>& keys);

// "forward", as text of a record that may be missing: escaped, a dash when it is.
std::string text(const Node& node);

}  // namespace spillway::decision::html
