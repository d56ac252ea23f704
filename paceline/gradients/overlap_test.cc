#include "paceline/gradients/overlap.h"

#include <gtest/gtest.h>

#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

bool left(std::vector<RankCores> ranks) { return cores_are_left(ranks); }

TEST(Overlap, NeedsACoreThatDoesNotCompute) {
  EXPECT_FALSE(left({{.first = 0, .count = 1, .computing = 1}, {.first = 1, .count = 1, .computing = 1}}));
  EXPECT_TRUE(left({{.first = 0, .count = 2, .computing = 1}, {.first = 2, .count = 2, .computing = 1}}));
  EXPECT_FALSE(left({{.first = 0, .count = 2, .computing = 1}, {.first = 2, .count = 2, .computing = 2}}));
}

TEST(Overlap, RanksWithTheSameCoresShareThem) {
  EXPECT_FALSE(left({{.first = 0, .count = 2, .computing = 1}, {.first = 0, .count = 2, .computing = 1}}));
  EXPECT_TRUE(left({{.first = 0, .count = 4, .computing = 1}, {.first = 0, .count = 4, .computing = 2}}));
}

TEST(Overlap, AllRanksGetTheSameAnswer) {
  std::array<bool, 3> pays;
  run_ranks(3, [&](Group& group) { pays[group.rank()] = overlap_pays(group, group.rank() == 1 ? 100'000 : 1); });
  EXPECT_EQ(pays, (std::array<bool, 3>{false, false, false}));  // one rank's threads fill the machine
}

}  // namespace
}  // namespace paceline
