#include "paceline/gradients/statistics_share.h"

#include <gmock/gmock.h>

#include <cmath>

namespace paceline {
namespace {

TEST(StatisticsShare, ConstantSharesKeepTheMomentumToTheBit) {
  StatisticsShare share(0.1);
  for (int step = 0; step < 100; ++step) {
    share.begin_step(11, 33);
    ASSERT_EQ(share.momentum(), 0.1);
    ASSERT_EQ(share.weight(), 11.0 / 33);
  }
}

TEST(StatisticsShare, OfARestingRankFadesAsStatisticsForget) {
  StatisticsShare share(0.1);
  share.begin_step(16, 32);
  for (int step = 0; step < 20; ++step) share.begin_step(0, 32);
  EXPECT_NEAR(share.weight(), 0.5 * std::pow(0.9, 20), 1e-15);
  for (int step = 0; step < 1000; ++step) share.begin_step(0, 32);
  EXPECT_EQ(share.weight(), 0);  // not a denormal number
  share.begin_step(16, 32);
  EXPECT_DOUBLE_EQ(share.weight(), 0.05);
  EXPECT_DOUBLE_EQ(share.momentum(), 1);  // what it had is of long ago
}

TEST(StatisticsShare, OfTheLastStepAloneIsItsShare) {
  StatisticsShare share(1);
  share.begin_step(4, 8);
  share.begin_step(1, 4);
  EXPECT_EQ(share.weight(), 0.25);
  share.begin_step(0, 4);
  EXPECT_EQ(share.weight(), 0);
}

TEST(StatisticsShare, OfAllRanksMakeOne) {
  StatisticsShare one(0.1), other(0.1);
  EXPECT_EQ(one.weight(), other.weight());  // before the first step ranks count alike
  for (int step = 1; step <= 30; ++step) {
    one.begin_step(step % 7, 7);
    other.begin_step(7 - step % 7, 7);
    ASSERT_NEAR(one.weight() + other.weight(), 1, 1e-14);
  }
}

}  // namespace
}  // namespace paceline
