#include "paceline/metrics/step_costs.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

TEST(StepCosts, OfTwoWindowsAreTheirSum) {
  StepCosts costs{.steps = 1, .step_s = 2, .compute_s = 4, .communication_s = 8, .waiting_s = 16};
  costs += {.steps = 2, .step_s = 0.5, .compute_s = 0.25, .communication_s = 3, .waiting_s = 1};
  EXPECT_EQ(costs, (StepCosts{.steps = 3, .step_s = 2.5, .compute_s = 4.25, .communication_s = 11, .waiting_s = 17}));
}

TEST(Overlap, IsTheShareOfCommunicationThatNobodyWaitedFor) {
  EXPECT_DOUBLE_EQ(overlap({.communication_s = 4, .waiting_s = 1}), 0.75);
  EXPECT_EQ(overlap({.communication_s = 4, .waiting_s = 0}), 1);
  EXPECT_EQ(overlap({.communication_s = 4, .waiting_s = 4}), 0);
}

TEST(Overlap, StaysBetweenZeroAndOne) {
  EXPECT_EQ(overlap({.communication_s = 4, .waiting_s = 5}), 0);
  EXPECT_EQ(overlap({.compute_s = 3}), 1);  // one rank: there was nothing to hide
  EXPECT_EQ(overlap({}), 1);
}

TEST(Efficiency, IsLusWithTheExposedPartOfCommunication) {
  // Lu: 1 / (1 + T_comm / T_comp)
  EXPECT_DOUBLE_EQ(efficiency({.compute_s = 97.5, .communication_s = 50, .waiting_s = 2.5}), 1 / (1 + 2.5 / 97.5));
  EXPECT_EQ(efficiency({.compute_s = 3, .communication_s = 2, .waiting_s = 0}), 1);  // all of it hidden
  EXPECT_EQ(efficiency({.waiting_s = 1}), 0);
  EXPECT_EQ(efficiency({}), 1);
}

TEST(GroupCosts, LastAsLongAsTheSlowestRank) {
  const std::vector<StepCosts> ranks = {
      {.steps = 10, .step_s = 3}, {.steps = 10, .step_s = 5}, {.steps = 10, .step_s = 4}};
  const GroupCosts costs = group_costs(ranks);
  EXPECT_EQ(costs.ranks, 3);
  EXPECT_EQ(costs.seconds, 5);
  EXPECT_EQ(costs.single_device_s, 15);
}

// A rank that made more steps (nobody waits for the others in an asynchronous run) weighs more.
TEST(GroupCosts, PerStepAreMeansOverAllLocalSteps) {
  const std::vector<StepCosts> ranks = {{.steps = 10, .compute_s = 4, .communication_s = 1, .waiting_s = 0.5},
                                        {.steps = 30, .compute_s = 6, .communication_s = 3, .waiting_s = 1.5}};
  const GroupCosts costs = group_costs(ranks);
  EXPECT_DOUBLE_EQ(costs.compute_per_step_s, 0.25);
  EXPECT_DOUBLE_EQ(costs.communication_per_step_s, 0.1);
  EXPECT_DOUBLE_EQ(costs.waiting_per_step_s, 0.05);
  EXPECT_DOUBLE_EQ(costs.overlap, 0.5);
  EXPECT_DOUBLE_EQ(costs.efficiency, 10.0 / 12);
}

TEST(GroupCosts, OfNothingAreFinite) {
  EXPECT_EQ(group_costs({}), GroupCosts{});
  const std::vector<StepCosts> idle(2);
  EXPECT_EQ(group_costs(idle), GroupCosts{.ranks = 2});
}

TEST(SingleDeviceSeconds, AreTheSecondsOfAllDevices) {
  EXPECT_EQ(single_device_s(/*seconds=*/18 * 60, /*ranks=*/24), 432 * 60);  // Lu, table 3.8: 18 minutes of 24 GPUs
}

}  // namespace
}  // namespace paceline
