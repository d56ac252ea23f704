// SizeTable: for people, a column per size and a line per contender; wide ones are continued below. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace paceline {

class SizeTable {
 public:
  explicit SizeTable(std::vector<uint64_t> sizes) : sizes_(std::move(sizes)) {}

  struct Cell {
    std::string text = "-";
    bool marked = false;  // by a star
  };
  // REQUIRES: a cell per size
  void add(const std::string& label, std::vector<Cell> cells);

  std::string str() const;

 private:
  struct Line {
    std::string label;
    std::vector<Cell> cells;
  };
  std::vector<uint64_t> sizes_;
  std::vector<Line> lines_;
};

std::string microseconds_text(double microseconds);  // 0.62, 11.8, 18,334

}  // namespace paceline
