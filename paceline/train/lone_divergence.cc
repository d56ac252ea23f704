#include "paceline/train/lone_divergence.h"

#include <fmt/format.h>

#include <vector>

#include "paceline/collectives/group_text.h"
#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/core/error.h"
#include "paceline/train/divergence.h"

namespace paceline {

void LoneDivergence::tell() {
  std::vector<int64_t> found = {is_noted() ? 1 : 0};
  sum_over_ranks(group_, view(found));
  if (found[0] > 0) fail();
}

void LoneDivergence::fail() {
  const std::vector<std::string> found = gather_texts(group_, text_);
  for (size_t rank = 0; rank < found.size(); ++rank)
    if (!found[rank].empty()) throw DivergenceError(fmt::format("rank {}, {}", rank, found[rank]));
  throw InternalError("ranks agree to have diverged, but none has");
}

}  // namespace paceline
