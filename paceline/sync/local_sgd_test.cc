#include "paceline/sync/local_sgd.h"

#include <gmock/gmock.h>

#include <vector>

namespace paceline {
namespace {

using testing::ElementsAre;

std::vector<uint64_t> averaging_steps(uint64_t interval, uint64_t steps) {
  std::vector<uint64_t> after;
  for (uint64_t step = 1; step <= steps; ++step)
    if (averages_after(step, interval, steps)) after.push_back(step);
  return after;
}

TEST(LocalSgd, RanksAverageEverySoManyStepsAndAfterTheLast) {
  EXPECT_THAT(averaging_steps(4, 10), ElementsAre(4, 8, 10));
  EXPECT_THAT(averaging_steps(5, 10), ElementsAre(5, 10));
  EXPECT_THAT(averaging_steps(1, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(averaging_steps(8, 3), ElementsAre(3));
}

TEST(LocalSgd, StepsThatCannotBeAreOurMistake) {
  EXPECT_THROW(averages_after(1, 0, 1), InternalError);
  EXPECT_THROW(averages_after(0, 1, 1), InternalError);
  EXPECT_THROW(averages_after(2, 1, 1), InternalError);
}

}  // namespace
}  // namespace paceline
