#include "paceline/sync/sync_counts.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"
#include "paceline/sync/test_orders.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Plays events through a policy and its counts.
SyncCounts counts_of(const std::string& policy, const SyncSettings& settings, const std::vector<SyncEvent>& events) {
  const auto made = builtin_policies().at(policy)(settings);
  SyncCounts counts;
  for (const SyncEvent& event : events) counts.observe(event, made->on(event));
  return counts;
}

TEST(SyncCounts, SaysWhatBecameOfEveryGradient) {
  const SyncCounts counts =
      counts_of("k_sync", {.workers = 3, .k = 1, .merge = "mean", .history = 2},
                {join(0), join(1), join(2), push(0, 0), push(0, 1), push(1, 0), push(0, 2), push(2, 0)});
  EXPECT_THAT(counts.workers(),
              ElementsAre(Pair(0, SyncCounts::OfWorker{.accumulated = 3}), Pair(1, SyncCounts::OfWorker{.merged = 1}),
                          Pair(2, SyncCounts::OfWorker{.dropped = 1})));
  EXPECT_EQ(counts.total(), (SyncCounts::OfWorker{.accumulated = 3, .merged = 1, .dropped = 1}));
  EXPECT_THAT(counts.staleness(), ElementsAre(Pair(0, 3), Pair(2, 1), Pair(3, 1)));
  EXPECT_EQ(counts.steps(), 3u);
  EXPECT_EQ(counts.last_step_gradients(), 1);
}

TEST(SyncCounts, CountsAppliedAndExchanged) {
  EXPECT_EQ(counts_of("asp", {}, {join(0), push(0, 0), push(0, 1)}).total(), (SyncCounts::OfWorker{.applied = 2}));
  EXPECT_EQ(counts_of("easgd", {}, {join(0), push(0, 0)}).total(), (SyncCounts::OfWorker{.exchanged = 1}));
}

TEST(SyncCounts, TheGapIsBetweenTheFastestAndTheSlowestThatAreThere) {
  const std::vector<SyncEvent> ahead = {join(0), join(1), push(0, 0), push(0, 1), push(0, 2), push(1, 0)};
  SyncCounts counts = counts_of("asp", {}, ahead);
  EXPECT_EQ(counts.gap(), 2u);
  EXPECT_EQ(counts.largest_gap(), 3u);
  counts.observe(join(2), {release_of(2, 4)});  // begins where worker 1 is
  EXPECT_EQ(counts.gap(), 2u);
  counts.observe(leave(0), {});
  EXPECT_EQ(counts.gap(), 0u);
  EXPECT_EQ(counts.largest_gap(), 3u);
}

TEST(SyncCounts, EveryPushOfARandomOrderIsCountedOnce) {
  for (const std::string& policy : builtin_policies().names())
    play_orders({.policy = policy,
                 .orders = 500,
                 .vary =
                     [](Dice& dice, SyncSettings& s) {
                       s.merge = std::array{"additive", "mean", "drop", "zhang"}[dice.below(4)];
                       s.history = dice.below(3);
                     },
                 .over =
                     [](const SyncHistory& past, const SyncSettings&) {
                       SyncCounts counts;
                       for (size_t at = 0; at < past.records.size(); ++at) {
                         counts.observe(past.records[at].event, past.records[at].decisions);
                         if (at == past.records.size() / 2) {
                           const std::string saved = counts.save();
                           counts = SyncCounts();
                           counts.load(saved);
                           ASSERT_EQ(counts.save(), saved);
                         }
                       }
                       std::map<Decision::Kind, uint64_t> decided;
                       uint64_t pushes = 0, stale = 0;
                       for (const SyncRecord& record : past.records) {
                         if (record.event.kind == SyncEvent::Kind::push) ++pushes;
                         for (const Decision& decision : record.decisions) ++decided[decision.kind];
                       }
                       for (const auto& [staleness, gradients] : counts.staleness()) stale += gradients;
                       const SyncCounts::OfWorker all = counts.total();
                       ASSERT_EQ(all.accumulated, decided[Decision::Kind::accumulate]);
                       ASSERT_EQ(all.applied, decided[Decision::Kind::apply]);
                       ASSERT_EQ(all.merged, decided[Decision::Kind::merge] + decided[Decision::Kind::merge_mean]);
                       ASSERT_EQ(all.dropped, decided[Decision::Kind::drop]);
                       ASSERT_EQ(all.exchanged, decided[Decision::Kind::exchange]);
                       ASSERT_EQ(pushes, all.accumulated + all.applied + all.merged + all.dropped + all.exchanged);
                       ASSERT_EQ(stale, pushes);
                       ASSERT_EQ(counts.steps(), past.version());
                       ASSERT_LE(counts.gap(), counts.largest_gap());
                     }});
}

TEST(SyncCounts, ByStalenessTheGapOfSspHasABound) {
  play_orders({.policy = "ssp",
               .orders = 1'000,
               .vary = [](Dice& dice, SyncSettings& s) { s.staleness = dice.below(4); },
               .over =
                   [](const SyncHistory& past, const SyncSettings& settings) {
                     SyncCounts counts;
                     for (const SyncRecord& record : past.records) counts.observe(record.event, record.decisions);
                     // One more than the bound: the step that was begun at the bound is finished.
                     ASSERT_LE(counts.largest_gap(), static_cast<uint64_t>(settings.staleness) + 1);
                   }});
}

TEST(SyncCounts, ALongRunHasFewClassesOfStaleness) {
  SyncCounts counts;
  uint64_t pushes = 0;
  double staleness_sum = 0, sum_of_classes = 0;
  for (uint64_t staleness = 0; staleness < (uint64_t{1} << 53);
       staleness += 1 + (staleness < 256 ? 0 : staleness / 128)) {
    counts.observe({.kind = SyncEvent::Kind::join},
                   {{.kind = Decision::Kind::step, .worker = -1, .version = staleness}});
    counts.observe({.kind = SyncEvent::Kind::push, .worker = 0, .version = 0}, {});
    ++pushes;
    staleness_sum += static_cast<double>(staleness);
  }
  EXPECT_LE(counts.staleness().size(), 256u + 8 * 45);
  uint64_t counted = 0;
  for (const auto& [staleness, gradients] : counts.staleness()) {
    counted += gradients;
    sum_of_classes += static_cast<double>(staleness) * static_cast<double>(gradients);
  }
  EXPECT_EQ(counted, pushes);
  EXPECT_NEAR(sum_of_classes / staleness_sum, 1, 0.01);
  for (uint64_t staleness = 0; staleness < 256; ++staleness) EXPECT_TRUE(counts.staleness().contains(staleness));

  // As those of a run of before, which had a class for each.
  SyncCounts loaded;
  std::string saved = counts.save();
  const std::string classes = R"("staleness":[)";
  saved.insert(saved.find(classes) + classes.size(), "[5000,2],[5001,3],");
  loaded.load(saved);
  EXPECT_EQ(loaded.staleness().size(), counts.staleness().size());
  EXPECT_EQ(loaded.staleness().at(4864), counts.staleness().at(4864) + 5);  // 4608 to 5119
}

TEST(SyncCounts, RefusesWhatItDidNotSave) {
  SyncCounts counts;
  EXPECT_THROW(counts.load("{"), DataError);
  EXPECT_THROW(counts.load("{}"), DataError);
}

}  // namespace
}  // namespace paceline
