#include "paceline/comm/engine_local.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class LocalEngineTest : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(LocalEngineTest, EveryRankHoldsTheSum) {
  const auto [ranks, count] = GetParam();
  const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
  run_ranks(ranks, [&, count = count](Group& group) {
    std::vector<float> data(count, static_cast<float>(group.rank()) + 1);
    group.all_reduce_sum(view(data));
    EXPECT_THAT(data, Each(sum));
    std::vector<int64_t> whole(count, group.rank() + 1);
    group.all_reduce_sum(view(whole));
    EXPECT_THAT(whole, Each(static_cast<int64_t>(sum)));
  });
}

TEST_P(LocalEngineTest, EveryRankHoldsTheRootsData) {
  const auto [ranks, count] = GetParam();
  run_ranks(ranks, [&, count = count, ranks = ranks](Group& group) {
    std::vector<float> data(count, static_cast<float>(group.rank()));
    group.broadcast(view(data), ranks - 1);
    EXPECT_THAT(data, Each(static_cast<float>(ranks - 1)));
    group.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(RanksAndCounts, LocalEngineTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5, 8), ::testing::Values(0, 1, 7, 1000)));

TEST(LocalEngine, OneRankIsAGroupToo) {
  const auto group = make_local_group();
  std::vector<float> data = {1, 2, 3};
  group->all_reduce_sum(view(data));
  group->broadcast(view(data), 0);
  group->barrier();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_THAT(data, ::testing::ElementsAre(1, 2, 3));
}

TEST(LocalEngine, AFailedRankEndsTheOthersAndItsErrorIsTheOneReported) {
  try {
    run_ranks(3, [](Group& group) {
      if (group.rank() == 1) throw DataError("the disk is gone");
      group.barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the disk is gone");
  }
}

TEST(LocalEngine, RanksWithDifferentCountsAreABug) {
  EXPECT_THROW(run_ranks(2,
                         [](Group& group) {
                           std::vector<float> data(3 + group.rank());
                           group.all_reduce_sum(view(data));
                         }),
               InternalError);
}

}  // namespace
}  // namespace paceline
