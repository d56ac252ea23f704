#include "paceline/sync/stale_all_reduce.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

TEST(StaleAllReduce, AppliesTheGradientOfSoManyStepsBefore) {
  EXPECT_EQ(applied_at(0, 2), std::nullopt);
  EXPECT_EQ(applied_at(1, 2), std::nullopt);
  EXPECT_EQ(applied_at(2, 2), 0u);
  EXPECT_EQ(applied_at(9, 2), 7u);
  EXPECT_EQ(applied_at(9, 0), 9u);
}

TEST(StaleAllReduce, EveryGradientIsAppliedOnceAndInOrder) {
  for (uint64_t staleness = 0; staleness < 5; ++staleness)
    for (uint64_t steps = 0; steps < 12; ++steps) {
      std::vector<uint64_t> computed, applied;
      for (uint64_t step = 0; step < steps; ++step) {
        computed.push_back(step);
        if (const auto of = applied_at(step, staleness)) applied.push_back(*of);
      }
      const StepsUnderWay left = under_way_after(steps, staleness);
      EXPECT_LE(left.end - left.begin, staleness);
      for (uint64_t step = left.begin; step < left.end; ++step) applied.push_back(step);
      EXPECT_EQ(applied, computed) << "staleness " << staleness << ", " << steps << " steps";
    }
}

}  // namespace
}  // namespace paceline
