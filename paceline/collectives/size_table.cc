#include "paceline/collectives/size_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/bytes.h"
#include "paceline/core/check.h"
#include "paceline/core/number_text.h"

namespace paceline {
namespace {

constexpr size_t kSizesPerBlock = 9;  // 112 columns

std::string without_trailing_spaces(const std::string& line) { return line.substr(0, line.find_last_not_of(' ') + 1); }

}  // namespace

void SizeTable::add(const std::string& label, std::vector<Cell> cells) {
  CHECK_EQ(cells.size(), sizes_.size());
  lines_.push_back({label, std::move(cells)});
}

std::string SizeTable::str() const {
  std::string text;
  for (size_t begin = 0; begin < sizes_.size(); begin += kSizesPerBlock) {
    const size_t end = std::min(sizes_.size(), begin + kSizesPerBlock);
    std::string head(22, ' ');
    for (size_t column = begin; column < end; ++column) head += fmt::format("{:>9} ", print_bytes(sizes_[column]));
    text += fmt::format("{}{}\n", begin > 0 ? "\n" : "", without_trailing_spaces(head));
    for (const Line& line : lines_) {
      std::string cells = fmt::format("{:<22}", line.label);
      for (size_t column = begin; column < end; ++column)
        cells += fmt::format("{:>9}{}", line.cells[column].text, line.cells[column].marked ? '*' : ' ');
      text += without_trailing_spaces(cells) + "\n";
    }
  }
  return text;
}

std::string microseconds_text(double microseconds) {
  if (microseconds < 9.995) return fmt::format("{:.2f}", microseconds);
  if (microseconds < 99.95) return fmt::format("{:.1f}", microseconds);
  return with_commas(static_cast<uint64_t>(std::llround(microseconds)));
}

}  // namespace paceline
