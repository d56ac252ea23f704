#include "paceline/sync/ssp.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "paceline/sync/asp.h"
#include "paceline/sync/test_orders.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kUnbounded = 1 << 30;

// Steps that each live worker has finished, found by reading the whole past. Joiners begin where the slowest is.
std::map<int, int> finished_steps(const SyncHistory& past) {
  std::map<int, int> finished;
  for (const SyncRecord& record : past.records) {
    const SyncEvent& event = record.event;
    if (event.kind == SyncEvent::Kind::push) ++finished[event.worker];
    if (event.kind == SyncEvent::Kind::leave) finished.erase(event.worker);
    if (event.kind == SyncEvent::Kind::join) {
      int slowest = finished.empty() ? 0 : kUnbounded;
      for (const auto& [id, steps] : finished) slowest = std::min(slowest, steps);
      finished[event.worker] = slowest;
    }
  }
  return finished;
}

void model(SyncHistory& past, const SyncSettings& settings, int bound) {
  const SyncEvent event = past.event();
  if (event.kind == SyncEvent::Kind::noise || event.kind == SyncEvent::Kind::tick) return;
  if (event.kind == SyncEvent::Kind::push) {
    const double staleness = static_cast<double>(past.version() - event.version);
    double rate = event.rate;
    if (settings.penalty == "linear") rate /= 1 + staleness;
    if (settings.penalty == "exponential") rate /= std::exp(settings.penalty_decay * staleness);
    past.answer(apply_of(event.worker, past.version() + 1, event.samples, rate));
  }
  const std::map<int, int> finished = finished_steps(past);
  int slowest = kUnbounded;
  for (const auto& [id, steps] : finished) slowest = std::min(slowest, steps);
  for (const int id : past.waiting())
    if (finished.at(id) - slowest <= bound) past.answer(release_of(id, past.version()));
}

// Whoever computes may have started at most `bound` steps more than the slowest has.
void gaps_stay_within(const SyncHistory& past, int bound) {
  SyncHistory so_far;
  for (const SyncRecord& record : past.records) {
    so_far.records.push_back(record);
    const std::map<int, int> finished = finished_steps(so_far);
    for (const Decision& decision : record.decisions) {
      if (decision.kind != Decision::Kind::release) continue;
      for (const auto& [id, steps] : finished) ASSERT_LE(finished.at(decision.worker), steps + bound);
    }
  }
}

void vary(Dice& dice, SyncSettings& settings) {
  settings.staleness = dice.below(4);
  settings.penalty = std::array{"none", "linear", "exponential"}[dice.below(3)];
  settings.penalty_decay = dice.uniform();
}

TEST(SspPolicy, HoldsBackAWorkerTooFarAhead) {
  SspPolicy ssp({.workers = 2, .staleness = 1});
  EXPECT_THAT(ssp.on(join(0)), ElementsAre(release_of(0, 0)));
  EXPECT_THAT(ssp.on(join(1)), ElementsAre(release_of(1, 0)));
  EXPECT_THAT(ssp.on(push(0, 0)), ElementsAre(apply_of(0, 1, 8, 0.5), release_of(0, 1)));
  EXPECT_THAT(ssp.on(push(0, 1)), ElementsAre(apply_of(0, 2, 8, 0.5)));
  EXPECT_THAT(ssp.waiting(), ElementsAre(0));
  EXPECT_THAT(ssp.on(push(1, 0)), ElementsAre(apply_of(1, 3, 8, 0.5), release_of(0, 3), release_of(1, 3)));
}

TEST(SspPolicy, ALeavingWorkerFreesOthers) {
  SspPolicy ssp({.workers = 3, .staleness = 0});
  for (int id = 0; id < 3; ++id) ssp.on(join(id));
  ssp.on(push(0, 0));
  ssp.on(push(2, 0));
  EXPECT_THAT(ssp.on(leave(1)), ElementsAre(release_of(0, 2), release_of(2, 2)));
}

TEST(SspPolicy, AJoinerBeginsAtTheSlowestCount) {
  SspPolicy ssp({.workers = 2, .staleness = 0});
  ssp.on(join(0));
  for (uint64_t version = 0; version < 5; ++version) ssp.on(push(0, version));
  EXPECT_THAT(ssp.on(join(1)), ElementsAre(release_of(1, 5)));
  EXPECT_THAT(ssp.on(push(1, 5)), ElementsAre(apply_of(1, 6, 8, 0.5)));  // one more than the other has
  EXPECT_THAT(ssp.on(push(0, 5)), ElementsAre(apply_of(0, 7, 8, 0.5), release_of(0, 7), release_of(1, 7)));
}

TEST(SspPolicy, AWorkerThatComesAgainHoldsNobodyBackForWhatItDidBefore) {
  SspPolicy ssp({.workers = 2, .staleness = 0});
  ssp.on(join(0));
  ssp.on(join(1));
  ssp.on(push(0, 0));
  EXPECT_THAT(ssp.on(leave(0)), IsEmpty());
  EXPECT_THAT(ssp.on(join(0)), ElementsAre(release_of(0, 1)));
}

TEST(SspPolicy, AnswersAsTheWholePastSaysInRandomOrders) {
  play_orders({.policy = "ssp", .vary = vary, .model = [](SyncHistory& past, const SyncSettings& s) {
                 model(past, s, s.staleness);
               }});
}

TEST(SspPolicy, NobodyIsFurtherAheadThanTheBound) {
  play_orders(
      {.policy = "ssp", .orders = 2'000, .vary = vary, .over = [](const SyncHistory& past, const SyncSettings& s) {
         gaps_stay_within(past, s.staleness);
       }});
}

TEST(AspPolicy, AppliesOnArrivalAndNobodyWaits) {
  AspPolicy asp({.workers = 2, .penalty = "linear"});
  asp.on(join(0));
  asp.on(join(1));
  EXPECT_THAT(asp.on(push(0, 0)), ElementsAre(apply_of(0, 1, 8, 0.5), release_of(0, 1)));
  EXPECT_THAT(asp.on(push(0, 1)), ElementsAre(apply_of(0, 2, 8, 0.5), release_of(0, 2)));
  EXPECT_THAT(asp.on(push(0, 2)), ElementsAre(apply_of(0, 3, 8, 0.5), release_of(0, 3)));
  EXPECT_THAT(asp.on(push(1, 0)), ElementsAre(apply_of(1, 4, 8, 0.125), release_of(1, 4)));  // 3 versions late
  EXPECT_EQ(asp.k(), 0);
}

TEST(AspPolicy, AnswersAsTheWholePastSaysInRandomOrders) {
  play_orders({.policy = "asp", .vary = vary, .model = [](SyncHistory& past, const SyncSettings& s) {
                 model(past, s, kUnbounded);
               }});
}

TEST(PenalisedRate, FollowsTheStaleness) {
  EXPECT_EQ(penalised_rate(0.5, 4, {.penalty = "none"}), 0.5);
  EXPECT_EQ(penalised_rate(0.5, 4, {.penalty = "linear"}), 0.1);
  EXPECT_DOUBLE_EQ(penalised_rate(0.5, 4, {.penalty = "exponential", .penalty_decay = 0.25}), 0.5 / std::exp(1));
  EXPECT_EQ(penalised_rate(0.5, 0, {.penalty = "exponential"}), 0.5);
}

}  // namespace
}  // namespace paceline
