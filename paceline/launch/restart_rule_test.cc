#include "paceline/launch/restart_rule.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(RestartRule, StartsEachRankAsOftenAsItMay) {
  RestartRule rule(2);
  const Ending killed = {.signal = 9};
  EXPECT_TRUE(rule.may_start_rank(1, killed));
  EXPECT_EQ(rule.start_rank(1), 1);
  EXPECT_EQ(rule.start_rank(1), 2);
  EXPECT_FALSE(rule.may_start_rank(1, killed));
  EXPECT_TRUE(rule.may_start_rank(0, killed));
  EXPECT_EQ(rule.start_all(), 1);
  EXPECT_EQ(rule.starts(1), 3);
  EXPECT_EQ(rule.starts(0), 1);
  EXPECT_TRUE(rule.may_start_all(killed));
  EXPECT_EQ(rule.start_all(), 2);
  EXPECT_FALSE(rule.may_start_all(killed));
}

TEST(RestartRule, StartsNothingThatWouldEndTheSameWay) {
  for (const int code : {1, 5, 7, 70, 139}) EXPECT_TRUE(RestartRule::may_help({.code = code})) << code;
  for (const int code : {2, 3, 4, 6, 130}) EXPECT_FALSE(RestartRule::may_help({.code = code})) << code;
  EXPECT_TRUE(RestartRule::may_help({.signal = 2}));
  EXPECT_FALSE(RestartRule::may_help({.lost = "the host is gone"}));
}

TEST(RestartRule, WithoutItNothingIsStartedAgain) {
  EXPECT_FALSE(RestartRule(0).may_start_rank(0, {.signal = 9}));
  EXPECT_FALSE(RestartRule(0).may_start_all({.signal = 9}));
}

}  // namespace
}  // namespace paceline
