#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/test_folder.h"
#include "paceline/train/assemble.h"
#include "paceline/train/test_network.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

// An epoch of 32 + 32 + 32 + 4 samples on up to 3 ranks, then batches of 10 on rank 0 alone.
Recipe recipe_with_resting_ranks(const std::vector<std::string>& more) {
  std::vector<std::string> overrides = {"model.name=small_cnn", "train.epochs=9",   "batch.fill=10",
                                        "batch.milestones=[1]", "batch.sizes=[10]", "batch.fills=[10]"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return tiny_recipe("[optimizer]\nrate = 0.1\n[train]\nthreads = 1\n", overrides);
}

// The test loss after so many steps: as evaluated, and with the statistics of rank 0 alone.
std::pair<double, double> test_losses(const std::string& statistics, const std::string& steps) {
  const Catalog catalog;
  const Recipe phases = recipe_with_resting_ranks({"batch_norm.statistics=" + statistics, "train.max_steps=" + steps});
  double evaluated = 0, own = 0;
  run_ranks(3, [&](Group& group) {
    Trainer trainer(phases, group, {.catalog = catalog});
    const double test_loss = trainer.run().test_loss;
    if (group.rank() != 0) return;
    evaluated = test_loss;
    const auto alone = make_local_group();
    Evaluator evaluator(open_data(phases, catalog), phases, *alone, torch::kCPU);
    own = evaluator(trainer.model())->loss;
  });
  return {evaluated, own};
}

TEST(TrainerStatistics, OfRestingRanksAreNotEvaluated) {
  for (const auto& [statistics, steps] : {std::pair("moving_average", "84"), std::pair("last_iteration", "84"),
                                          std::pair("last_iteration", "5"), std::pair("last_iteration", "4")}) {
    const auto [evaluated, own] = test_losses(statistics, steps);
    EXPECT_NEAR(evaluated, own, 1e-3) << statistics << ", step " << steps;
  }
  for (const char* statistics : {"moving_average", "last_iteration"}) {  // while all ranks have samples
    const auto [evaluated, own] = test_losses(statistics, "3");
    EXPECT_GT(std::abs(evaluated - own), 1e-6) << statistics;
  }
}

// A checkpoint has every rank's part in the statistics: bit for bit, also while ranks rest.
TEST(TrainerStatistics, GoOnWithTheSharesThatRanksHad) {
  const TestFolder folder;
  const auto run = [&](const std::string& name, bool resume, const std::string& steps) {
    Summary summary;
    run_ranks(3, [&](Group& group) {
      Trainer trainer(recipe_with_resting_ranks({"train.max_steps=" + steps}), group,
                      {.run_folder = {folder.path() / name}, .resume = resume, .catalog = Catalog()});
      const Summary own = trainer.run();
      if (group.rank() == 0) summary = own;
    });
    return summary;
  };
  const Summary whole = run("whole", false, "14");
  run("parts", false, "7");
  const Summary parts = run("parts", true, "14");
  EXPECT_EQ(parts.weights_sha256, whole.weights_sha256);
  EXPECT_EQ(parts.test_loss, whole.test_loss);
}

}  // namespace
}  // namespace paceline
