#include "paceline/sync/drop_worker.h"

#include <gmock/gmock.h>

#include "paceline/sync/test_orders.h"
#include "paceline/sync/test_rounds_model.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using enum Decision::Kind;

TEST(DropWorkerPolicy, TheFastestMakeTheStepAndTheLateAreDropped) {
  DropWorkerPolicy policy({.workers = 3, .drop_share = 0.5});
  for (int id = 0; id < 3; ++id) policy.on(join(id));
  EXPECT_EQ(policy.k(), 2);  // ⌈1.5⌉
  EXPECT_THAT(policy.on(push(2, 0)), ElementsAre(gradient(accumulate, 2, 0, 8)));
  EXPECT_THAT(policy.on(push(0, 0)),
              ElementsAre(gradient(accumulate, 0, 0, 8), step_to(1, 16, 0.5), release_of(0, 1), release_of(2, 1)));
  EXPECT_THAT(policy.on(push(1, 0)), ElementsAre(gradient(drop, 1, 0, 8), release_of(1, 1)));
}

TEST(DropWorkerPolicy, TheFirstStepIsOfTheFastestOfAllThatAreExpected) {
  DropWorkerPolicy policy({.workers = 4, .drop_share = 0.5});
  policy.on(join(0));
  EXPECT_THAT(policy.on(push(0, 0)), ElementsAre(gradient(accumulate, 0, 0, 8)));
  policy.on(join(1));
  EXPECT_THAT(policy.on(push(1, 0)),
              ElementsAre(gradient(accumulate, 1, 0, 8), step_to(1, 16, 0.5), release_of(0, 1), release_of(1, 1)));
  // Now the live ones count: half of two.
  EXPECT_THAT(policy.on(push(1, 1)), ElementsAre(gradient(accumulate, 1, 1, 8), step_to(2, 8, 0.5), release_of(1, 2)));
}

TEST(DropWorkerPolicy, ALeavingWorkerMakesFewerEnough) {
  DropWorkerPolicy policy({.workers = 4, .drop_share = 0.25});
  for (int id = 0; id < 4; ++id) policy.on(join(id));
  policy.on(push(0, 0));
  policy.on(push(1, 0));
  EXPECT_EQ(policy.k(), 3);
  EXPECT_THAT(policy.on(leave(3)), testing::IsEmpty());  // ⌈2.25⌉
  EXPECT_THAT(policy.on(leave(2)), ElementsAre(step_to(1, 16, 0.5), release_of(0, 1), release_of(1, 1)));
}

TEST(DropWorkerPolicy, AShareInDecimalsIsMeantInDecimals) {
  EXPECT_EQ(DropWorkerPolicy({.workers = 10, .drop_share = 0.7}).k(), 3);  // (1 - 0.7)·10 > 3 in binary
  EXPECT_EQ(DropWorkerPolicy({.workers = 10, .drop_share = 0.8}).k(), 2);
  EXPECT_EQ(DropWorkerPolicy({.workers = 10, .drop_share = 0.99}).k(), 1);
  EXPECT_EQ(DropWorkerPolicy({.workers = 3, .drop_share = 0}).k(), 3);
}

TEST(DropWorkerPolicy, AnswersAsTheWholePastSaysInRandomOrders) {
  // Shares in eighths: exact, so that the model needs no care.
  play_orders(
      {.policy = "drop_worker",
       .vary = [](Dice& dice, SyncSettings& s) { s.drop_share = dice.below(8) / 8.0; },
       .model = RoundsModel{.merge = "drop", .enough = [](const SyncHistory&, const SyncSettings& s, int party) {
                              int enough = 1;
                              while (enough < (1 - s.drop_share) * party) ++enough;
                              return enough;
                            }}});
}

}  // namespace
}  // namespace paceline
