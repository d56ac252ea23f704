// Random histories of a coordinator under every policy: whatever dies and comes back, runs end, every share of samples
// is pushed once, and a coordinator that starts again is where it was.
#include <gmock/gmock.h>

#include "paceline/ps/test_coordinator_world.h"

namespace paceline {
namespace {

using testing::_;
using testing::Each;
using testing::Pair;

struct PolicyCase {
  std::string policy;
  SyncSettings sync;
};

std::string name_of_case(const testing::TestParamInfo<PolicyCase>& info) {
  const auto& [policy, sync] = info.param;
  if (policy == "adaptive_k") return policy + "_" + sync.rule;
  return policy == "k_sync" ? policy + "_" + sync.merge : policy;
}

class CoordinatorHistories : public testing::TestWithParam<PolicyCase> {
 protected:
  CoordinatorWorldOptions options(uint64_t seed) const {
    const RandomKey key = RandomKey(seed).with("options");
    CoordinatorWorldOptions options;
    options.seed = seed;
    options.coordinator.policy = GetParam().policy;
    options.coordinator.sync = GetParam().sync;
    options.coordinator.sync.workers = static_cast<int>(1 + key.below(0, 4));
    options.worker_ids = options.coordinator.sync.workers + static_cast<int>(key.below(1, 2));
    options.coordinator.shards = static_cast<int>(1 + key.below(2, 3));
    options.coordinator.lease_ns = 3'000;
    options.calm_actions = 5 + key.below(5, 60);
    const uint64_t data_size = 1 + key.below(3, 150);
    options.coordinator.plan = {.data_size = data_size,
                                .total_samples = 2 * data_size,
                                .global_batch = 1 + key.below(4, 12),
                                .workers = options.coordinator.sync.workers};
    return options;
  }
};

TEST_P(CoordinatorHistories, EndWithEveryShareUsedOnce) {
  int restarts = 0, deaths = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const CoordinatorWorldOptions with = options(seed);
    CoordinatorWorld world(with);
    ASSERT_TRUE(world.run(6'000)) << world.coordinator().save();
    if (HasFatalFailure()) return;
    restarts += world.restarts();
    deaths += world.deaths();

    const Coordinator& coordinator = world.coordinator();
    EXPECT_EQ(coordinator.leases().used_samples(), with.coordinator.plan.total_samples);
    EXPECT_EQ(world.uses_of_shares().size(), coordinator.leases().used_shares());
    EXPECT_THAT(world.uses_of_shares(), Each(Pair(_, 1)));
    EXPECT_EQ(coordinator.policy().live(), 0);

    // Every push is decided about once, and counted.
    std::map<std::pair<int, uint64_t>, int> decided;
    uint64_t dropped = 0;
    for (const Command& command : world.log()) {
      if (command.sequence == 0 || command.decision.kind == Decision::Kind::release) continue;
      ++decided[{command.decision.worker, command.sequence}];
      if (command.decision.kind == Decision::Kind::drop) ++dropped;
    }
    EXPECT_THAT(decided, Each(Pair(_, 1)));
    EXPECT_EQ(decided.size(), world.pushes());
    const SyncCounts::OfWorker total = coordinator.counts().total();
    EXPECT_EQ(total.dropped, dropped);
    EXPECT_EQ(total.accumulated + total.applied + total.merged + total.dropped + total.exchanged, world.pushes());
    EXPECT_EQ(coordinator.counts().steps(), coordinator.policy().version());

    // From the events alone it is the same coordinator, which has decided the same.
    const std::unique_ptr<Coordinator> again = world.make();
    for (const CoordinatorEvent& event : world.all_events()) again->replay(event);
    CoordinatorWorld::expect_same(*again, coordinator);
    EXPECT_TRUE(again->over());
    const std::vector<Command> kept = again->since(again->issued() - std::min<uint64_t>(again->issued(), 1));
    EXPECT_EQ(kept.back(), world.log().back());
  }
  EXPECT_GT(restarts, 10);
  EXPECT_GT(deaths, 100);
}

// In whatever order workers come, compute and are heard of: all that changes weights is the same, to the order.
TEST(CoordinatorOrder, UnderBspIsThatOfTheSamples) {
  const auto changes = [](uint64_t seed) {
    CoordinatorWorldOptions options;
    options.seed = seed;
    options.worker_ids = options.coordinator.sync.workers = 4;
    options.coordinator.shards = 2;
    options.coordinator.lease_ns = 1'000'000'000;
    options.coordinator.plan = {.data_size = 50, .total_samples = 100, .global_batch = 8, .workers = 4};
    CoordinatorWorld world(options);
    EXPECT_TRUE(world.run(0));
    std::vector<std::string> changes;
    for (const Command& command : world.log())
      if (command.decision.kind != Decision::Kind::release) changes.push_back(to_text(command.decision));
    return changes;
  };
  const std::vector<std::string> expected = changes(0);
  EXPECT_GT(expected.size(), 60u);
  for (uint64_t seed = 1; seed < 20; ++seed) EXPECT_EQ(changes(seed), expected) << seed;
}

INSTANTIATE_TEST_SUITE_P(Policies, CoordinatorHistories,
                         testing::Values(PolicyCase{"bsp", {}}, PolicyCase{"asp", {.penalty = "linear"}},
                                         PolicyCase{"ssp", {.staleness = 1}}, PolicyCase{"easgd", {}},
                                         PolicyCase{"drop_worker", {}}, PolicyCase{"k_sync", {.merge = "additive"}},
                                         PolicyCase{"k_sync", {.merge = "mean"}},
                                         PolicyCase{"k_sync", {.merge = "drop"}},
                                         PolicyCase{"adaptive_k", {.rule = "time"}},
                                         PolicyCase{"adaptive_k", {.rule = "variance"}}),
                         name_of_case);

}  // namespace
}  // namespace paceline
