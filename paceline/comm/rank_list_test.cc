#include "paceline/comm/rank_list.h"

#include <gtest/gtest.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

TEST(RankList, NamesRanksAndFoldsRanges) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({3, 4}), "ranks 3 and 4");
  EXPECT_EQ(rank_list({3, 4, 5}), "ranks 3-5");
  EXPECT_EQ(rank_list({3, 5, 6, 7, 8, 12}), "ranks 3, 5-8 and 12");
  EXPECT_EQ(rank_list({0, 1, 7, 8, 9}), "ranks 0, 1 and 7-9");
}

TEST(RankList, SortsRanks) { EXPECT_EQ(rank_list({9, 2, 0, 1}), "ranks 0-2 and 9"); }

TEST(RankList, OfNoRanksIsABug) { EXPECT_THROW(rank_list({}), InternalError); }

}  // namespace
}  // namespace paceline
