#include "paceline/sync/bsp.h"

#include <gmock/gmock.h>

#include <limits>

#include "paceline/sync/test_orders.h"
#include "paceline/sync/test_rounds_model.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum Decision::Kind;

TEST(BspPolicy, StepsWithTheMeanOfAll) {
  BspPolicy bsp({.workers = 2});
  EXPECT_THAT(bsp.on(join(0)), ElementsAre(release_of(0, 0)));
  EXPECT_THAT(bsp.on(join(1)), ElementsAre(release_of(1, 0)));
  EXPECT_THAT(bsp.on(push(1, 0, 24, 0.5)), ElementsAre(gradient(accumulate, 1, 0, 24)));
  EXPECT_THAT(bsp.waiting(), ElementsAre(1));
  EXPECT_THAT(bsp.on(push(0, 0, 8, 0.1)),
              ElementsAre(gradient(accumulate, 0, 0, 8), step_to(1, 32, 0.4), release_of(0, 1), release_of(1, 1)));
  EXPECT_EQ(bsp.version(), 1u);
  EXPECT_THAT(bsp.waiting(), IsEmpty());
}

TEST(BspPolicy, TheFirstStepWaitsForThoseStillToCome) {
  BspPolicy bsp({.workers = 2});
  bsp.on(join(7));
  EXPECT_EQ(bsp.k(), 2);
  EXPECT_THAT(bsp.on(push(7, 0)), ElementsAre(gradient(accumulate, 7, 0, 8)));
  EXPECT_THAT(bsp.on(join(3)), ElementsAre(release_of(3, 0)));
  EXPECT_THAT(bsp.on(push(3, 0)),
              ElementsAre(gradient(accumulate, 3, 0, 8), step_to(1, 16, 0.5), release_of(3, 1), release_of(7, 1)));
}

TEST(BspPolicy, WhoLeavesBeforeAllHaveComeIsExpectedNoMore) {
  BspPolicy bsp({.workers = 4});
  bsp.on(join(0));
  bsp.on(join(1));
  EXPECT_THAT(bsp.on(leave(1)), IsEmpty());
  bsp.on(join(2));
  bsp.on(push(0, 0));
  EXPECT_THAT(bsp.on(push(2, 0)), ElementsAre(gradient(accumulate, 2, 0, 8)));  // one is still to come
  EXPECT_THAT(bsp.on(leave(0)), IsEmpty());
  bsp.on(join(5));  // the fourth
  EXPECT_THAT(bsp.on(push(5, 0)),
              ElementsAre(gradient(accumulate, 5, 0, 8), step_to(1, 24, 0.5), release_of(2, 1), release_of(5, 1)));
}

TEST(BspPolicy, ALeavingWorkerCompletesTheRound) {
  BspPolicy bsp({.workers = 3});
  for (int id = 0; id < 3; ++id) bsp.on(join(id));
  bsp.on(push(0, 0));
  bsp.on(push(2, 0));
  EXPECT_THAT(bsp.on(leave(1)), ElementsAre(step_to(1, 16, 0.5), release_of(0, 1), release_of(2, 1)));
}

TEST(BspPolicy, AGradientStaysWhenItsWorkerLeavesAndComesAgain) {
  BspPolicy bsp({.workers = 2});
  bsp.on(join(0));
  bsp.on(join(1));
  bsp.on(push(0, 0, 4));
  EXPECT_THAT(bsp.on(leave(0)), IsEmpty());
  EXPECT_THAT(bsp.on(join(0)), ElementsAre(release_of(0, 0)));
  EXPECT_THAT(bsp.on(push(1, 0, 8)), ElementsAre(gradient(accumulate, 1, 0, 8)));  // the first computes again
  EXPECT_THAT(bsp.on(push(0, 0, 16)),
              ElementsAre(gradient(accumulate, 0, 0, 16), step_to(1, 28, 0.5), release_of(0, 1), release_of(1, 1)));
}

TEST(BspPolicy, TheLastToLeaveLeavesNoGradientUnused) {
  BspPolicy bsp({.workers = 2});
  bsp.on(join(0));
  bsp.on(join(1));
  bsp.on(push(0, 0));
  bsp.on(leave(0));
  EXPECT_THAT(bsp.on(leave(1)), ElementsAre(step_to(1, 8, 0.5)));
}

TEST(BspPolicy, ReportsAndTicksChangeNothing) {
  BspPolicy bsp({.workers = 1});
  bsp.on(join(0));
  const std::string before = bsp.save();
  EXPECT_THAT(bsp.on({}), IsEmpty());
  EXPECT_THAT(bsp.on(noise(0, {.samples = 8, .samples_squared = 64})), IsEmpty());
  EXPECT_EQ(bsp.save(), before);
}

TEST(BspPolicy, AnswersAsTheWholePastSaysInRandomOrders) {
  play_orders({.policy = "bsp",
               .model = RoundsModel{.merge = "drop",
                                    .enough = [](const SyncHistory&, const SyncSettings&,
                                                 int) { return std::numeric_limits<int>::max(); }},
               .over = [](const SyncHistory& past, const SyncSettings&) {
                 // Each step has a gradient of everybody who goes on with it, and none was late.
                 for (const SyncRecord& record : past.records)
                   for (size_t at = 0; at < record.decisions.size(); ++at) {
                     ASSERT_NE(record.decisions[at].kind, drop);
                     if (record.decisions[at].kind != step) continue;
                     const auto pushes = past.accumulated(record.decisions[at].version - 1);
                     for (size_t then = at + 1; then < record.decisions.size(); ++then)
                       ASSERT_TRUE(std::ranges::any_of(
                           pushes, [&](const SyncEvent& p) { return p.worker == record.decisions[then].worker; }));
                   }
               }});
}

}  // namespace
}  // namespace paceline
