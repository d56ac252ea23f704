#include "paceline/schedule/batch_size.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/error.h"

namespace paceline {
namespace {

TEST(BatchSchedule, APlainNumberIsConstant) {
  const BatchSchedule batch = 512;
  for (const double epoch : {-1.0, 0.0, 0.5, 1e9}) EXPECT_EQ(batch.at(epoch), 512u);
  EXPECT_EQ(batch.largest(), 512u);
}

// Mikami, Exp. 4: 34K, 68K, 85K, 119K at epochs 30, 45, 75.
TEST(BatchSchedule, AtAMilestoneTheNewSizeCounts) {
  const BatchSchedule batch = BatchPhases{34'816, {30, 45, 75}, {69'632, 87'040, 121'856}};
  EXPECT_EQ(batch.at(-1), 34'816u);
  EXPECT_EQ(batch.at(0), 34'816u);
  EXPECT_EQ(batch.at(std::nextafter(30, 0)), 34'816u);
  EXPECT_EQ(batch.at(30), 69'632u);
  EXPECT_EQ(batch.at(45), 87'040u);
  EXPECT_EQ(batch.at(std::nextafter(75, 0)), 87'040u);
  EXPECT_EQ(batch.at(75), 121'856u);
  EXPECT_EQ(batch.at(1000), 121'856u);
}

TEST(BatchSchedule, TheLargestMayBeAnyPhase) {
  EXPECT_EQ(BatchSchedule(BatchPhases{8, {1, 2}, {4, 2}}).largest(), 8u);
  EXPECT_EQ(BatchSchedule(BatchPhases{8, {1, 2}, {16, 2}}).largest(), 16u);
  EXPECT_EQ(BatchSchedule(BatchPhases{8, {1, 2}, {16, 32}}).largest(), 32u);
}

TEST(BatchSchedule, KnowsTheNextMilestone) {
  const BatchSchedule batch = BatchPhases{8, {0.5, 2}, {4, 2}};
  EXPECT_EQ(batch.next_milestone(0), 0.5);
  EXPECT_EQ(batch.next_milestone(0.5), 2);
  EXPECT_EQ(batch.next_milestone(2), std::numeric_limits<double>::infinity());
  EXPECT_EQ(BatchSchedule(1).next_milestone(0), std::numeric_limits<double>::infinity());
}

TEST(BatchSchedule, ChecksItsPhases) {
  const auto make = [](BatchPhases phases) { return BatchSchedule(std::move(phases)); };
  EXPECT_THROW(BatchSchedule(0), InternalError);
  EXPECT_THROW(make({8, {1}, {0}}), InternalError);
  EXPECT_THROW(make({8, {1}, {}}), InternalError);
  EXPECT_THROW(make({8, {2, 1}, {4, 4}}), InternalError);
  EXPECT_THROW(make({8, {1, 1}, {4, 4}}), InternalError);
  EXPECT_THROW(make({8, {0}, {4}}), InternalError);
  EXPECT_THROW(make({8, {std::nan("")}, {4}}), InternalError);
}

}  // namespace
}  // namespace paceline
