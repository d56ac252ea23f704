#include "paceline/ps/coordinator.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Decision::Kind;
using Outgoing = Coordinator::Outgoing;

constexpr int64_t kLease = 100;

// Batches of two samples for two workers: shares of one sample.
CoordinatorOptions with(const std::string& policy, uint64_t samples, int shards = 1) {
  CoordinatorOptions options;
  options.policy = policy;
  options.sync.workers = 2;
  options.plan = {.data_size = samples, .total_samples = samples, .global_batch = 2, .workers = 2};
  options.shards = shards;
  options.lease_ns = kLease;
  return options;
}

Coordinator make(const CoordinatorOptions& options) { return {options, builtin_policies()}; }

PushNews news_of(const Assignment& assignment) {
  return {.sequence = assignment.sequence, .version = assignment.version, .samples = 1, .rate = 0.5};
}

Assignment joined(Coordinator& coordinator, int worker, uint64_t incarnation) {
  return coordinator.join(worker, incarnation, 0).go.at(0).assignment.value();
}

std::vector<Kind> kinds(const std::vector<Command>& commands) {
  std::vector<Kind> kinds;
  for (const Command& command : commands) kinds.push_back(command.decision.kind);
  return kinds;
}

std::vector<int> who(const Outgoing& out) {
  std::vector<int> workers;
  for (const Outgoing::Go& go : out.go) workers.push_back(go.worker);
  return workers;
}

TEST(CoordinatorTest, AnExpectedWorkerThatNeverComesIsWaitedForOnlySoLong) {
  CoordinatorOptions options = with("bsp", 4);
  options.lease_ns = 1'000'000;
  options.first_wait_ns = 50;
  Coordinator coordinator = make(options);
  const Assignment first = joined(coordinator, 1, 7);
  EXPECT_THAT(coordinator.tick(10).absent, IsEmpty());
  coordinator.staged(0, 1, news_of(first), 20);
  EXPECT_THAT(coordinator.tick(60).commands, IsEmpty());
  const Outgoing out = coordinator.tick(61);
  EXPECT_THAT(out.absent, ElementsAre(0));
  EXPECT_THAT(kinds(out.commands), testing::Contains(Kind::step));
  EXPECT_THAT(who(out), ElementsAre(1));
  EXPECT_THAT(coordinator.tick(1'000).absent, IsEmpty());
  const Assignment late = joined(coordinator, 0, 9);  // it comes after all
  EXPECT_EQ(late.version, 1u);
}

TEST(CoordinatorTest, AJoinGivesSamplesAndParameters) {
  Coordinator coordinator = make(with("bsp", 4));
  const Outgoing out = coordinator.join(1, 77, 5);
  ASSERT_EQ(out.events.size(), 1u);
  EXPECT_EQ(out.events[0], (CoordinatorEvent{.time_ns = 5, .worker = 1, .incarnation = 77}));
  EXPECT_THAT(out.commands,
              ElementsAre(Command{.index = 1, .sequence = 1, .decision = {.kind = Kind::release, .worker = 1}}));
  ASSERT_EQ(out.go.size(), 1u);
  EXPECT_EQ(out.go[0].worker, 1);
  EXPECT_EQ(out.go[0].assignment->sequence, 1u);
  EXPECT_EQ(out.go[0].assignment->lease.number, 1u);  // share 1 of the first batch is worker 1's
  EXPECT_THAT(out.gone, IsEmpty());
  EXPECT_THROW(coordinator.join(-1, 1, 5), PeerError);
  EXPECT_THROW(coordinator.join(Coordinator::kFirstObserver, 1, 5), PeerError);
}

TEST(CoordinatorTest, APushHappensWhenAllShardsHaveIt) {
  Coordinator coordinator = make(with("bsp", 4, 2));
  const Assignment zero = joined(coordinator, 0, 1), one = joined(coordinator, 1, 1);
  EXPECT_THAT(coordinator.staged(0, 0, news_of(zero), 1).events, IsEmpty());
  EXPECT_THAT(coordinator.staged(0, 0, news_of(zero), 1).events, IsEmpty());  // the same shard again
  Outgoing out = coordinator.staged(1, 0, news_of(zero), 2);
  ASSERT_EQ(out.events.size(), 1u);
  EXPECT_EQ(out.events[0].push, news_of(zero));
  EXPECT_THAT(kinds(out.commands), ElementsAre(Kind::accumulate));
  EXPECT_EQ(out.commands[0].sequence, 1u);
  EXPECT_THAT(coordinator.staged(0, 0, news_of(zero), 3).commands, IsEmpty());  // old news

  coordinator.staged(1, 1, news_of(one), 4);
  out = coordinator.staged(0, 1, news_of(one), 4);
  EXPECT_THAT(kinds(out.commands), ElementsAre(Kind::accumulate, Kind::step, Kind::release, Kind::release));
  EXPECT_EQ(out.commands[0].sequence, 1u);
  EXPECT_EQ(out.commands[1].sequence, 0u);
  EXPECT_EQ(out.commands[3].index, 7u);
  ASSERT_THAT(who(out), ElementsAre(0, 1));
  EXPECT_EQ(out.go[1].assignment->sequence, 2u);
  EXPECT_EQ(out.go[1].assignment->version, 1u);
  EXPECT_EQ(out.go[1].assignment->lease.number, 3u);
  EXPECT_THAT(coordinator.staged(0, 9, news_of(one), 5).events, IsEmpty());  // of nobody
}

// Sums of the same numbers in another order have other bits.
TEST(CoordinatorTest, WhoWaitsForAllSumsInTheOrderOfTheSamples) {
  CoordinatorOptions options = with("bsp", 8);
  options.sync.workers = options.plan.workers = 4;
  options.plan.global_batch = 4;
  Coordinator coordinator = make(options);
  const auto accumulated = [](const Outgoing& out) {
    std::vector<int> workers;
    for (const Command& command : out.commands)
      if (command.decision.kind == Kind::accumulate) workers.push_back(command.decision.worker);
    return workers;
  };
  std::map<int, Assignment> given;
  for (const int worker : {2, 0, 3}) given[worker] = joined(coordinator, worker, 1);
  EXPECT_THAT(accumulated(coordinator.staged(0, 0, news_of(given[0]), 1)), IsEmpty());  // 1 has not come
  Outgoing out = coordinator.join(1, 1, 2);
  EXPECT_THAT(accumulated(out), ElementsAre(0));
  given[1] = out.go.at(0).assignment.value();
  for (const auto& [worker, assignment] : given) EXPECT_EQ(assignment.lease.share, worker);

  EXPECT_THAT(accumulated(coordinator.staged(0, 3, news_of(given[3]), 3)), IsEmpty());
  EXPECT_THAT(accumulated(coordinator.staged(0, 1, news_of(given[1]), 4)), ElementsAre(1));
  out = coordinator.staged(0, 2, news_of(given[2]), 5);
  EXPECT_THAT(accumulated(out), ElementsAre(2, 3));
  EXPECT_THAT(who(out), ElementsAre(0, 1, 2, 3));

  for (const Outgoing::Go& go : out.go) given[go.worker] = go.assignment.value();
  for (const int worker : {3, 2, 1})
    EXPECT_THAT(accumulated(coordinator.staged(0, worker, news_of(given[worker]), 6)), IsEmpty());
  EXPECT_THAT(accumulated(coordinator.leave(0, 7)), ElementsAre(1, 2, 3));  // who is gone is not waited for
}

TEST(CoordinatorTest, NewsThatCannotBeIsRefused) {
  Coordinator coordinator = make(with("bsp", 4, 2));
  const PushNews right = news_of(joined(coordinator, 0, 1));
  joined(coordinator, 1, 1);
  const auto refused = [&](auto change) {
    PushNews news = right;
    change(news);
    EXPECT_THROW(coordinator.staged(1, 0, news, 1), PeerError);
  };
  refused([](PushNews& news) { news.sequence = 2; });
  refused([](PushNews& news) { news.version = 1; });
  refused([](PushNews& news) { news.samples = 0; });
  refused([](PushNews& news) { news.rate = -1; });
  refused([](PushNews& news) { news.samples = 2; });  // more than it was given: it would outweigh the others
  coordinator.staged(0, 0, right, 1);
  refused([](PushNews& news) { news.rate = 0.25; });  // not what shard 0 was told
  EXPECT_THROW(coordinator.staged(2, 0, right, 1), PeerError);
  EXPECT_EQ(coordinator.staged(1, 0, right, 1).events.size(), 1u);
}

TEST(CoordinatorTest, WhoComesBackGetsItsAssignmentAgain) {
  Coordinator coordinator = make(with("bsp", 4));
  const Assignment first = joined(coordinator, 0, 1);
  joined(coordinator, 1, 1);
  Outgoing again = coordinator.join(0, 1, 3);
  EXPECT_THAT(kinds(again.commands), ElementsAre(Kind::release));
  EXPECT_EQ(again.commands[0].index, 3u);
  EXPECT_EQ(again.go.at(0).assignment, first);
  EXPECT_EQ(again.events.size(), 1u);
  coordinator.staged(0, 0, news_of(first), 4);
  again = coordinator.join(0, 1, 5);  // it waits for worker 1
  EXPECT_THAT(again.commands, IsEmpty());
  EXPECT_THAT(again.go, IsEmpty());
  EXPECT_THAT(again.events, IsEmpty());
}

TEST(CoordinatorTest, ANewIncarnationTakesThePlaceOfTheOldOne) {
  Coordinator coordinator = make(with("bsp", 4, 2));
  const Assignment old = joined(coordinator, 0, 1);
  joined(coordinator, 1, 1);
  coordinator.staged(0, 0, news_of(old), 1);  // never on shard 1
  const Outgoing out = coordinator.join(0, 2, 3);
  ASSERT_EQ(out.events.size(), 2u);
  EXPECT_EQ(out.events[0].kind, CoordinatorEvent::Kind::leave);
  EXPECT_EQ(out.events[1].kind, CoordinatorEvent::Kind::join);
  EXPECT_THAT(out.gone, IsEmpty());
  const Assignment now = out.go.at(0).assignment.value();
  EXPECT_EQ(now.lease, old.lease);
  EXPECT_EQ(now.sequence, 2u);  // what shard 0 has of number 1 cannot pass for it
  EXPECT_THAT(coordinator.staged(1, 0, news_of(old), 4).events, IsEmpty());
  coordinator.staged(0, 0, news_of(now), 5);
  EXPECT_EQ(coordinator.staged(1, 0, news_of(now), 5).events.size(), 1u);
}

TEST(CoordinatorTest, WhoIsSilentIsGoneAndItsSamplesAreAnothers) {
  Coordinator coordinator = make(with("asp", 2));
  joined(coordinator, 0, 1);
  const Assignment one = joined(coordinator, 1, 1);
  Outgoing out = coordinator.staged(0, 1, news_of(one), 10);
  EXPECT_THAT(kinds(out.commands), ElementsAre(Kind::apply));  // no samples are left: it stands by
  EXPECT_THAT(out.go, IsEmpty());
  EXPECT_EQ(coordinator.policy().live(), 1);
  EXPECT_THAT(coordinator.join(1, 1, 11).go, IsEmpty());

  coordinator.heard(0, 20);
  coordinator.heard(1, 20);
  EXPECT_THAT(coordinator.tick(20 + kLease - 1).events, IsEmpty());
  coordinator.heard(1, 20 + kLease);
  out = coordinator.tick(21 + kLease);
  EXPECT_THAT(out.gone, ElementsAre(0));
  ASSERT_EQ(out.events.size(), 1u);
  EXPECT_EQ(out.events[0].kind, CoordinatorEvent::Kind::leave);
  ASSERT_THAT(who(out), ElementsAre(1));
  EXPECT_EQ(out.go[0].assignment->lease.number, 0u);
  EXPECT_EQ(out.go[0].assignment->sequence, 2u);
  EXPECT_EQ(out.go[0].assignment->version, 1u);
  EXPECT_FALSE(coordinator.over());

  out = coordinator.staged(0, 1, news_of(*out.go[0].assignment), 200);
  ASSERT_THAT(who(out), ElementsAre(1));
  EXPECT_FALSE(out.go[0].assignment);
  EXPECT_TRUE(coordinator.over());
  out = coordinator.join(0, 2, 201);  // too late
  EXPECT_FALSE(out.go.at(0).assignment);
  EXPECT_THAT(out.commands, IsEmpty());
  EXPECT_THAT(coordinator.leave(0, 202).events, IsEmpty());
  EXPECT_TRUE(coordinator.over());
}

// One share for two expected workers: the first step must not wait for a gradient that cannot come.
TEST(CoordinatorTest, ARoundDoesNotWaitForWhoGotNoSamples) {
  Coordinator coordinator = make(with("bsp", 1));
  const Assignment zero = joined(coordinator, 0, 1);
  EXPECT_THAT(coordinator.staged(0, 0, news_of(zero), 1).commands, IsEmpty());
  const Outgoing out = coordinator.join(1, 1, 2);
  EXPECT_THAT(kinds(out.commands), ElementsAre(Kind::accumulate, Kind::step));
  EXPECT_THAT(who(out), testing::UnorderedElementsAre(0, 1));
  EXPECT_TRUE(coordinator.over());
}

TEST(CoordinatorTest, TheNoiseIsTheSumOverShards) {
  CoordinatorOptions options = with("adaptive_k", 4, 2);
  options.sync.rule = "variance";
  Coordinator coordinator = make(options);
  std::vector<CoordinatorEvent> events = coordinator.join(0, 1, 0).events;
  const PushNews push = {.sequence = 1, .version = 0, .samples = 1, .rate = 0.5};
  coordinator.staged(0, 0, push, 1);
  events.push_back(coordinator.staged(1, 0, push, 1).events.at(0));
  const auto report = [](uint64_t index) {
    return ShardReport{.index = index, .noise = {.samples = 1, .samples_squared = 2, .mean_norm2 = 3, .spread = 4}};
  };
  EXPECT_THAT(coordinator.reported(0, report(1), 2).events, IsEmpty());
  EXPECT_THAT(coordinator.reported(1, report(1), 2).events, IsEmpty());  // a release
  EXPECT_THAT(coordinator.reported(0, report(2), 2).events, IsEmpty());
  EXPECT_THAT(coordinator.reported(0, report(2), 2).events, IsEmpty());  // twice is once
  const Outgoing out = coordinator.reported(1, report(2), 3);
  ASSERT_EQ(out.events.size(), 1u);
  EXPECT_EQ(out.events[0],
            (CoordinatorEvent{.kind = CoordinatorEvent::Kind::noise,
                              .time_ns = 3,
                              .noise = {.samples = 1, .samples_squared = 2, .mean_norm2 = 6, .spread = 8},
                              .noise_index = 2}));
  EXPECT_THROW(coordinator.reported(0, report(3), 4), PeerError);

  // Shards repeat their last report to a coordinator that started again: the policy has heard of it already.
  Coordinator again = make(options);
  for (const CoordinatorEvent& event : events) again.replay(event);
  again.replay(out.events[0]);
  EXPECT_THAT(again.reported(0, report(2), 5).events, IsEmpty());
  EXPECT_THAT(again.reported(1, report(2), 5).events, IsEmpty());
  EXPECT_THROW(coordinator.reported(2, report(1), 4), PeerError);
}

TEST(CoordinatorTest, CommandsAreKeptUntilAllShardsHaveReportedThem) {
  Coordinator coordinator = make(with("asp", 20, 2));
  joined(coordinator, 0, 1);
  joined(coordinator, 1, 1);
  coordinator.observe(Coordinator::kFirstObserver, 3);
  coordinator.reported(0, {.index = 2}, 4);
  EXPECT_EQ(coordinator.since(0).size(), 3u);
  EXPECT_EQ(coordinator.since(3).size(), 0u);
  coordinator.reported(1, {.index = 1}, 4);
  EXPECT_EQ(coordinator.since(1).size(), 2u);
  EXPECT_EQ(coordinator.since(1)[0].index, 2u);
  EXPECT_THROW(coordinator.since(0), PeerError);
  EXPECT_THROW(coordinator.since(4), PeerError);

  Coordinator loaded = make(with("asp", 20, 2));
  loaded.load(coordinator.save());
  EXPECT_EQ(loaded.since(1), coordinator.since(1));
  EXPECT_EQ(loaded.save(), coordinator.save());
}

TEST(CoordinatorTest, AnObserverGetsTheNewestVersionAndIsNoWorker) {
  Coordinator coordinator = make(with("asp", 20));
  coordinator.staged(0, 0, news_of(joined(coordinator, 0, 1)), 1);
  const Outgoing out = coordinator.observe(Coordinator::kFirstObserver + 2, 9);
  EXPECT_THAT(
      out.commands,
      ElementsAre(Command{
          .index = 4, .decision = {.kind = Kind::release, .worker = Coordinator::kFirstObserver + 2, .version = 1}}));
  EXPECT_EQ(out.events.at(0).kind, CoordinatorEvent::Kind::observe);
  EXPECT_THAT(out.go, IsEmpty());
  EXPECT_THAT(coordinator.workers(), ElementsAre(0));
  EXPECT_THROW(coordinator.observe(3, 9), PeerError);
}

TEST(CoordinatorTest, AfterAReplayWorkersHaveAWholeLease) {
  Coordinator coordinator = make(with("asp", 20));
  const Outgoing out = coordinator.join(0, 1, 50);
  Coordinator again = make(with("asp", 20));
  for (const CoordinatorEvent& event : out.events) again.replay(event);
  EXPECT_EQ(again.since(0), coordinator.since(0));
  EXPECT_EQ(again.latest_ns(), 50);
  EXPECT_THAT(again.tick(1'000).gone, IsEmpty());
  EXPECT_THAT(again.tick(1'000 + kLease).gone, IsEmpty());
  EXPECT_THAT(again.tick(1'001 + kLease).gone, ElementsAre(0));
}

TEST(CoordinatorTest, TimesOfEventsDoNotGoBack) {
  Coordinator coordinator = make(with("asp", 20));
  coordinator.join(0, 1, 50);
  EXPECT_EQ(coordinator.join(1, 1, 20).events.at(0).time_ns, 50);
}

TEST(CoordinatorTest, DamagedStateIsRefused) {
  Coordinator coordinator = make(with("asp", 20));
  EXPECT_THROW(coordinator.load("{}"), DataError);
  EXPECT_THROW(coordinator.load("what?"), DataError);
  EXPECT_THROW(coordinator.load(make(with("bsp", 20)).save()), DataError);
  EXPECT_THROW(make(with("no such policy", 20)), UsageError);
}

}  // namespace
}  // namespace paceline
