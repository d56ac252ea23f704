#include "paceline/data/run_phases.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using testing::ElementsAre;

std::vector<RunPhase> phases_of(const std::string& toml, int ranks = 1, uint64_t data_size = 100) {
  return run_phases(parse_recipe(toml, "r.toml"), ranks, data_size);
}

TEST(RunPhases, AConstantRecipeIsOnePhase) {
  EXPECT_THAT(phases_of("train.epochs = 3\nbatch.global = 30\n", 4), ElementsAre(RunPhase{.from = 0,
                                                                                          .to = 3,
                                                                                          .batch = 30,
                                                                                          .active_ranks = 4,
                                                                                          .share = 8,
                                                                                          .rate = 0.1,
                                                                                          .rate_last = 0.1,
                                                                                          .momentum = 0.9,
                                                                                          .steps = 12}));
}

TEST(RunPhases, EndWithTheWarmUpAndAtEveryMilestone) {
  const auto phases = phases_of(R"(
    train.epochs = 8
    batch = {global = 20, milestones = [4, 6], sizes = [40, 50]}
    optimizer.rate = 1
    schedule = {name = "step", warmup_epochs = 2, milestones = [4, 5], factor = 0.5, momentum = "noise_scale"})");
  ASSERT_EQ(phases.size(), 5u);
  const double ends[] = {2, 4, 5, 6, 8}, rates[] = {0, 1, 0.5, 0.25, 0.25}, rates_last[] = {1, 1, 0.5, 0.25, 0.25};
  const double momenta[] = {0.9, 0.9, 0.95, 0.95, 0.96};
  const uint64_t batches[] = {20, 20, 40, 40, 50}, steps[] = {10, 10, 3, 3, 4};
  for (size_t i = 0; i < phases.size(); ++i) {
    EXPECT_EQ(phases[i].from, i == 0 ? 0 : ends[i - 1]);
    EXPECT_EQ(phases[i].to, ends[i]);
    EXPECT_EQ(phases[i].batch, batches[i]);
    EXPECT_EQ(phases[i].steps, steps[i]);
    EXPECT_DOUBLE_EQ(phases[i].rate, rates[i]);
    EXPECT_DOUBLE_EQ(phases[i].rate_last, rates_last[i]);
    EXPECT_DOUBLE_EQ(phases[i].momentum, momenta[i]);
  }
}

TEST(RunPhases, AStepBelongsToThePhaseThatItBeginsIn) {
  const auto phases = phases_of("train.epochs = 1\nbatch = {global = 30, milestones = [0.5], sizes = [10]}");
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].steps, 2u);  // 0 to 30 and 30 to 60
  EXPECT_EQ(phases[1].steps, 4u);
}

TEST(RunPhases, MaxStepsEndsTheRun) {
  const auto phases = phases_of("train = {epochs = 9, max_steps = 7}\nbatch.global = 25\nschedule.warmup_epochs = 3");
  ASSERT_EQ(phases.size(), 1u);  // the warm-up is not over
  EXPECT_EQ(phases[0].to, 1.75);
  EXPECT_EQ(phases[0].steps, 7u);
  EXPECT_EQ(phases_of("train = {epochs = 0, max_steps = 8}\nbatch.global = 25")[0].to, 2);
}

TEST(RunPhases, TheBatchIsThatOfAllRanksAndNoMoreThanTheData) {
  EXPECT_EQ(phases_of("batch.local = 8\n", 5)[0].batch, 40u);
  EXPECT_EQ(phases_of("batch.local = 8\n", 50)[0].batch, 100u);
}

TEST(RunPhases, FillLeavesRanksIdle) {
  const std::string toml =
      "train.epochs = 4\nbatch = {global = 60, milestones = [2], sizes = [60], fill = 10, fills = [20]}";
  const auto phases = phases_of(toml, 8);
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].active_ranks, 6);
  EXPECT_EQ(phases[0].share, 10u);
  EXPECT_EQ(phases[1].active_ranks, 3);
  EXPECT_EQ(phases[1].share, 20u);
  EXPECT_EQ(ranks_occupied(parse_recipe(toml, "r.toml"), 100), 6);
  EXPECT_EQ(ranks_occupied(parse_recipe("batch.local = 4", "r.toml"), 100), 1);
}

TEST(RunPhases, ChecksItsArguments) {
  EXPECT_THROW(phases_of("", 0), InternalError);
  EXPECT_THROW(phases_of("", 1, 0), InternalError);
}

}  // namespace
}  // namespace paceline
