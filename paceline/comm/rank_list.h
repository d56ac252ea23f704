// Ranks as people read them: "rank 3", "ranks 3, 5-8 and 12".
#pragma once

#include <string>
#include <vector>

namespace paceline {

// REQUIRES: at least one rank. They need no order.
std::string rank_list(std::vector<int> ranks);

}  // namespace paceline
