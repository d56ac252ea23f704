#include "paceline/train/run_length.h"

#include <gmock/gmock.h>

#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> due_steps(const RecordRhythm& rhythm) {
  std::vector<int64_t> due;
  for (int64_t step = 1; step <= rhythm.steps; ++step)
    if (rhythm.is_due(step, step % rhythm.epoch_steps == 0)) due.push_back(step);
  return due;
}

TEST(RecordRhythm, ALineComesEverySoManySteps) {
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 1000, .steps = 200}), ElementsAre(50, 100, 150, 200));
  EXPECT_THAT(due_steps({.every_steps = 1, .epoch_steps = 2, .steps = 3}), ElementsAre(1, 2, 3));
}

// The last line is the end's.
TEST(RecordRhythm, AShortRestJoinsTheLineBefore) {
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 1000, .steps = 202}), ElementsAre(50, 100, 150));
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 1000, .steps = 224}), ElementsAre(50, 100, 150));
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 1000, .steps = 225}), ElementsAre(50, 100, 150, 200));
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 1000, .steps = 52}), ElementsAre());
}

TEST(RecordRhythm, AnEpochOfFewerStepsEndsWithALine) {
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 10, .steps = 30}), ElementsAre(10, 20, 30));
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 10, .steps = 34}), ElementsAre(10, 20));
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 50, .steps = 100}), ElementsAre(50, 100));
  EXPECT_THAT(due_steps({.every_steps = 50, .epoch_steps = 80, .steps = 175}), ElementsAre(50, 100, 150));
}

}  // namespace
}  // namespace paceline
