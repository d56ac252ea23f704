#include "paceline/sync/k_sync.h"

#include <gmock/gmock.h>

#include "paceline/sync/test_orders.h"
#include "paceline/sync/test_rounds_model.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using enum Decision::Kind;

// Workers 0, 1 and 2 of 3 are there; the first two make the steps, the last is late by two.
KSyncPolicy with_a_straggler(SyncSettings settings) {
  settings.workers = 3;
  settings.momentum = 0.5;
  KSyncPolicy policy(settings);
  for (int id = 0; id < 3; ++id) policy.on(join(id));
  for (uint64_t version = 0; version < 2; ++version) {
    policy.on(push(1, version, 8, 0.5));
    EXPECT_THAT(policy.on(push(0, version, 16, 0.5)),
                ElementsAre(gradient(accumulate, 0, version, 16), step_to(version + 1, 24, 0.5),
                            release_of(0, version + 1), release_of(1, version + 1)));
  }
  return policy;
}

TEST(KSyncPolicy, ALateGradientIsMergedByItsShareOfAllWorkersSamples) {
  KSyncPolicy policy = with_a_straggler({.merge = "additive"});
  EXPECT_THAT(policy.on(push(2, 0, 8)), ElementsAre(gradient(merge, 2, 0, 8, 0.25 * 8 / 32), release_of(2, 2)));
}

TEST(KSyncPolicy, AWorkerThatHasNotPushedCountsAsTheMeanOfTheOthers) {
  KSyncPolicy policy = with_a_straggler({.merge = "additive"});
  policy.on(join(3));
  // 16, 8, 18 and their mean 14
  EXPECT_THAT(policy.on(push(2, 0, 18)), ElementsAre(gradient(merge, 2, 0, 18, 0.25 * (18.0 / 56)), release_of(2, 2)));
}

TEST(KSyncPolicy, ALateGradientIsMergedIntoTheMeanOfItsVersion) {
  KSyncPolicy policy = with_a_straggler({.merge = "mean", .history = 2});
  EXPECT_THAT(policy.on(push(2, 0)), ElementsAre(gradient(merge_mean, 2, 0, 8, 0.25), release_of(2, 2)));
}

TEST(KSyncPolicy, AGradientOlderThanTheHistoryIsDropped) {
  KSyncPolicy policy = with_a_straggler({.merge = "mean", .history = 1});
  EXPECT_THAT(policy.on(push(2, 0)), ElementsAre(gradient(drop, 2, 0, 8), release_of(2, 2)));
}

TEST(KSyncPolicy, ALateGradientIsMergedByTheGradientsOfTheStepThatItMissed) {
  KSyncPolicy policy = with_a_straggler({.merge = "zhang"});
  EXPECT_THAT(policy.on(push(2, 0)), ElementsAre(gradient(merge, 2, 0, 8, 0.125), release_of(2, 2)));
}

TEST(KSyncPolicy, ALateGradientIsDropped) {
  KSyncPolicy policy = with_a_straggler({.merge = "drop"});
  EXPECT_THAT(policy.on(push(2, 0)), ElementsAre(gradient(drop, 2, 0, 8), release_of(2, 2)));
}

TEST(KSyncPolicy, KIsHalfOfTheWorkersOrWhatIsAskedForAndNoMoreThanThereAre) {
  EXPECT_EQ(KSyncPolicy({.workers = 5}).k(), 3);
  EXPECT_EQ(KSyncPolicy({.workers = 5, .k = 2}).k(), 2);
  KSyncPolicy few({.workers = 1, .k = 4});
  few.on(join(0));
  EXPECT_EQ(few.k(), 1);
  EXPECT_THAT(few.on(push(0, 0)), ElementsAre(gradient(accumulate, 0, 0, 8), step_to(1, 8, 0.5), release_of(0, 1)));
}

TEST(KSyncPolicy, ALateWorkersNextGradientIsFresh) {
  KSyncPolicy policy = with_a_straggler({.merge = "drop"});
  policy.on(push(2, 0));
  EXPECT_THAT(policy.on(push(2, 2)), ElementsAre(gradient(accumulate, 2, 2, 8)));
  EXPECT_THAT(policy.on(push(1, 2)),
              ElementsAre(gradient(accumulate, 1, 2, 8), step_to(3, 16, 0.5), release_of(1, 3), release_of(2, 3)));
}

class KSyncMerging : public testing::TestWithParam<const char*> {};

TEST_P(KSyncMerging, AnswersAsTheWholePastSaysInRandomOrders) {
  const std::string merge = GetParam();
  play_orders({.policy = "k_sync",
               .orders = 5'000,
               .vary =
                   [&](Dice& dice, SyncSettings& s) {
                     s.merge = merge;
                     s.k = dice.below(5);
                     s.history = dice.from_to(0, 4);
                     s.momentum = dice.uniform();
                   },
               .model = RoundsModel{.merge = merge, .enough = [](const SyncHistory&, const SyncSettings& s, int party) {
                                      return s.k == 0 ? (party + 1) / 2 : std::min(s.k, party);
                                    }}});
}
INSTANTIATE_TEST_SUITE_P(EveryWay, KSyncMerging, testing::Values("additive", "mean", "drop", "zhang"));

}  // namespace
}  // namespace paceline
