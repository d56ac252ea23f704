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

}  // namespace
}  // namespace paceline
