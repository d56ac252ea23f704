#include "paceline/train/group_checkpoint.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"
#include "paceline/train/test_network.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

Recipe recipe(const std::vector<std::string>& overrides) {
  return tiny_recipe("[optimizer]\nrate = 0.01\n[train]\nepochs = 2\nthreads = 1\n", overrides);
}

Summary train(int ranks, const std::filesystem::path& folder, bool resume, std::vector<std::string> overrides,
              const std::string& steps = "") {
  if (!steps.empty()) overrides.push_back("train.max_steps=" + steps);
  Summary summary;
  run_ranks(ranks, [&](Group& group) {
    Trainer trainer(recipe(overrides), group,
                    {.run_folder = {folder}, .resume = resume, .catalog = catalog_with_tiny()});
    const Summary own = trainer.run();
    if (group.rank() == ranks - 1) summary = own;
  });
  return summary;
}

// An epoch is 4 steps: hybrid hands over after the second.
const std::vector<std::vector<std::string>> kOptimizers = {
    {"optimizer.name=sgd", "optimizer.momentum=0.9"},
    {"optimizer.name=lars"},
    {"optimizer.name=lars", "optimizer.momentum=0.9", "optimizer.momentum_correction=true"},
    {"optimizer.name=adam"},
    {"optimizer.name=adamw"},
    {"optimizer.name=rmsprop"},
    {"optimizer.name=adabound"},
    {"optimizer.name=hybrid", "optimizer.hybrid_epochs=0.5"},
    {"optimizer.name=hybrid", "optimizer.hybrid_epochs=0.5", "optimizer.average=0.9"}};

class GroupCheckpointTest : public ::testing::TestWithParam<int> {};

TEST_P(GroupCheckpointTest, EveryOptimizerGoesOnBitForBit) {
  for (const auto& optimizer : kOptimizers) {
    const TestFolder folder;
    const Summary whole = train(GetParam(), folder.path() / "whole", false, optimizer);
    for (const char* steps : {"1", "2", "3"}) {
      train(GetParam(), folder.path() / steps, false, optimizer, steps);
      const Summary resumed = train(GetParam(), folder.path() / steps, true, optimizer);
      EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256) << optimizer[0] << ", after step " << steps;
      EXPECT_EQ(resumed.test_loss, whole.test_loss) << optimizer[0] << ", after step " << steps;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GroupCheckpointTest, ::testing::Values(1, 3));

TEST(GroupCheckpoint, AnotherNumberOfRanksGoesOnWithEveryOptimizer) {
  for (const auto& optimizer : kOptimizers) {
    const TestFolder folder;
    const Summary whole = train(1, folder.path() / "whole", false, optimizer);
    for (const auto& [before, after] : {std::pair(1, 2), std::pair(2, 1)}) {
      const std::filesystem::path run = folder.path() / std::to_string(before);
      train(before, run, false, optimizer, "3");
      EXPECT_NEAR(train(after, run, true, optimizer).test_loss, whole.test_loss, 1e-4) << optimizer[0] << before;
    }
  }
}

// SGD's momentum and that of LARS have the same names, and other units.
TEST(GroupCheckpoint, AnotherOptimizerIsRefused) {
  for (const int ranks : {1, 2}) {
    const TestFolder folder;
    train(ranks, folder.path(), false, {"optimizer.name=sgd", "optimizer.momentum=0.9"}, "3");
    const auto refusal = [&](const std::vector<std::string>& changed) -> std::string {
      try {
        train(ranks, folder.path(), true, changed);
      } catch (const RecipeError& error) {
        return error.what();
      }
      return "none";
    };
    EXPECT_THAT(refusal({"optimizer.name=lars", "optimizer.momentum=0.9"}),
                HasSubstr("optimizer.name: the run began with sgd, and its checkpoints hold the optimizer's state"));
    EXPECT_THAT(refusal({"optimizer.momentum=0.9", "optimizer.average=0.9"}),
                HasSubstr("optimizer.average: the run began with 0"));
    EXPECT_THAT(refusal({"optimizer.momentum=0.9", "sync.rate=barzilai_borwein"}),
                HasSubstr("sync.rate: the run began with schedule"));
    EXPECT_EQ(refusal({"optimizer.momentum=0.8", "optimizer.rate=0.02"}), "none");  // is told, and goes on
  }
}

TEST(GroupCheckpoint, ARunThatGoesOnAndFailsLeavesNoSummaryOfBefore) {
  const TestFolder folder;
  train(1, folder.path(), false, {}, "3");
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "summary.json"));
  EXPECT_THROW(train(1, folder.path(), true, {"optimizer.rate=1e30"}), TrainingError);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "summary.json"));
}

}  // namespace
}  // namespace paceline
