#include "paceline/train/evaluator.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/train/assemble.h"
#include "paceline/train/test_network.h"

namespace paceline {
namespace {

// 20 batches of 256 on each of two ranks.
Recipe recipe() { return tiny_recipe("[train]\nepochs = 1\nthreads = 1\n", {"data.test_samples=10240"}); }

TEST(Evaluator, SharesTheTestSetAmongTheRanks) {
  const Recipe own = recipe();
  const DatasetPair data = open_data(own, catalog_with_tiny());
  std::vector<Evaluation> found;
  for (const int ranks : {1, 2})
    run_ranks(ranks, [&](Group& group) {
      const auto model = build_model(own, catalog_with_tiny(), *data.train);
      const std::optional<Evaluation> evaluation = Evaluator(data, own, group, torch::kCPU)(*model);
      ASSERT_TRUE(evaluation);
      EXPECT_TRUE(model->is_training());
      if (group.rank() == 0) found.push_back(*evaluation);
    });
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].samples, 10240);
  EXPECT_EQ(found[1].top1, found[0].top1);
  EXPECT_NEAR(found[1].loss, found[0].loss, 1e-9);
}

TEST(Evaluator, IsBrokenOffOnAllRanksWhenOneIsAskedToStop) {
  const Recipe own = recipe();
  const DatasetPair data = open_data(own, catalog_with_tiny());
  run_ranks(2, [&](Group& group) {
    const auto model = build_model(own, catalog_with_tiny(), *data.train);
    std::stop_source stop;
    if (group.rank() == 1) stop.request_stop();
    EXPECT_FALSE(Evaluator(data, own, group, torch::kCPU, stop.get_token())(*model));
    EXPECT_TRUE(model->is_training());
  });
}

}  // namespace
}  // namespace paceline
