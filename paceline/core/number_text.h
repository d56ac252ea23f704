// Numbers as people read them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace paceline {

inline std::string with_commas(uint64_t number) {  // 1,234,567
  std::string digits = fmt::format("{}", number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

}  // namespace paceline
