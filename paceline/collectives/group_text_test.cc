#include "paceline/collectives/group_text.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

TEST(GroupText, EveryRankGetsTheRootsText) {
  run_ranks(3, [](Group& group) {
    EXPECT_EQ(broadcast_text(group, group.rank() == 1 ? "of rank 1" : "mine, and longer", 1), "of rank 1");
    EXPECT_EQ(broadcast_text(group, group.rank() == 0 ? "" : "x", 0), "");
  });
}

TEST(GroupText, EveryRankGetsAllTextsInRankOrder) {
  run_ranks(4, [](Group& group) {
    const std::string mine(static_cast<size_t>(group.rank()), 'x');
    EXPECT_THAT(gather_texts(group, mine), ::testing::ElementsAre("", "x", "xx", "xxx"));
  });
}

}  // namespace
}  // namespace paceline
