#include "paceline/comm/rank_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.h"

namespace paceline {

std::string rank_list(std::vector<int> ranks) {
  CHECK_TRUE(!ranks.empty(), "a list of no ranks");
  std::ranges::sort(ranks);
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  std::vector<std::string> parts;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == first + 1) last = first;  // two in a row are no range
    parts.push_back(last == first ? fmt::format("{}", ranks[first]) : fmt::format("{}-{}", ranks[first], ranks[last]));
    first = last + 1;
  }
  const std::string last = parts.back();
  parts.pop_back();
  return parts.empty() ? fmt::format("ranks {}", last) : fmt::format("ranks {} and {}", fmt::join(parts, ", "), last);
}

}  // namespace paceline
