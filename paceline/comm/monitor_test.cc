#include "paceline/comm/monitor.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

std::vector<std::string> names(const Monitor& monitor) {
  std::vector<std::string> names;
  monitor.each_group([&](const WatchedGroup& group) { names.push_back(group.name); });
  return names;
}

TEST(Monitor, ShowsItsGroupsInOrder) {
  Monitor monitor(1000);
  StatusCell world;
  StatusCell row;
  monitor.add({"world", {0, 1, 2, 3}, 2, &world});
  monitor.add({"world/0:1", {2, 3}, 0, &row});
  EXPECT_EQ(names(monitor), (std::vector<std::string>{"world", "world/0:1"}));
  EXPECT_EQ(monitor.timeout_ms(), 1000);
}

TEST(Monitor, ForgetsTheGroupOfAStatusThatGoes) {
  Monitor monitor(1000);
  StatusCell world;
  StatusCell row;
  monitor.add({"world", {0, 1}, 0, &world});
  monitor.add({"world/0:1", {0, 1}, 0, &row});
  monitor.remove(&world);
  monitor.remove(&world);
  EXPECT_EQ(names(monitor), std::vector<std::string>{"world/0:1"});
  monitor.remove(&row);
  EXPECT_TRUE(names(monitor).empty());
}

TEST(Monitor, ReadsWhatAGroupIsDoing) {
  Monitor monitor(1000);
  StatusCell world;
  monitor.add({"world", {0, 1}, 0, &world});
  world.begin({.verb = Verb::barrier, .sequence = 7}, 5);
  int seen = 0;
  monitor.each_group([&](const WatchedGroup& group) {
    ++seen;
    EXPECT_EQ(to_text(group.status->read().operation), "barrier #7");
  });
  EXPECT_EQ(seen, 1);
}

TEST(Monitor, ShowsAChoreInEveryGroupAlsoInOneThatComesLater) {
  Monitor monitor(1000);
  StatusCell world;
  StatusCell row;
  monitor.add({"world", {0, 1}, 0, &world});
  {
    const AtWork outer(monitor, Chore::checkpoint);
    const AtWork inner(monitor, Chore::data);
    monitor.add({"world/0:1", {0, 1}, 0, &row});
    for (const StatusCell* cell : {&world, &row}) {
      EXPECT_EQ(cell->read().life.chore, Chore::checkpoint);
      EXPECT_GT(cell->read().life.chore_since_ns, 0);
      EXPECT_EQ(cell->read().life.worked_until_ns, 0);
    }
  }
  for (const StatusCell* cell : {&world, &row}) {
    EXPECT_EQ(cell->read().life.chore, Chore::none);
    EXPECT_GT(cell->read().life.worked_until_ns, 0);
    EXPECT_EQ(cell->read().life.beat_ns, 0) << "nobody beats but a watchdog";
  }
  monitor.beat();
  EXPECT_GT(row.read().life.beat_ns, 0);
}

TEST(Monitor, HasPatienceForOneTimeOutAfterAChore) {
  Monitor monitor(60'000);
  EXPECT_FALSE(monitor.out_of_patience(59'999));
  EXPECT_TRUE(monitor.out_of_patience(60'000));
  monitor.excuse({.since_work_ms = 60'000, .direct = true});
  EXPECT_TRUE(monitor.out_of_patience(60'000));
  monitor.excuse({.since_work_ms = 0, .direct = true});
  EXPECT_FALSE(monitor.out_of_patience(60'000'000));
}

TEST(Monitor, AnExcuseThatComesBackDoesNotGrow) {
  Monitor monitor(60'000);
  monitor.excuse({.since_work_ms = 10'000});
  const int64_t until_ns = monitor.life().worked_until_ns;
  monitor.excuse({.since_work_ms = 9'500});
  EXPECT_EQ(monitor.life().worked_until_ns, until_ns);
  monitor.excuse({.since_work_ms = 9'500, .direct = true});
  EXPECT_GT(monitor.life().worked_until_ns, until_ns);
}

}  // namespace
}  // namespace paceline
