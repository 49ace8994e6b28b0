// table.h - a table for a terminal: the first column to the left, figures to the right, a rule under the head.
#pragma once
#include <string>
#include <vector>

namespace spillway::decision {

class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  // As many cells as the head has.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // A head of several words is broken over lines, so that columns stay as narrow as their figures.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace spillway::decision
