#include "paceline/launch/supervisor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

struct Watched {
  PollLoop loop;
  std::vector<std::string> told;
  Supervisor supervisor{
      loop,
      {.line = [this](const std::string& name, Stream,
                      std::string_view line) { told.push_back(name + " says " + std::string(line)); },
       .ended = [this](const std::string& name, const Ending& ending) { told.push_back(name + " " + ending.text()); },
       .restarted = [this](const std::string& name,
                           const Ending& ending) { told.push_back(name + " again: " + ending.text()); }}};

  void run() {
    while (supervisor.running() > 0) loop.turn();
  }
};

ProcessOrder shell(const std::string& script) { return {.arguments = {"/bin/sh", "-c", script}}; }

TEST(Supervisor, PassesOnWhatIsSaidAndHowItEnded) {
  Watched watched;
  watched.supervisor.start("one", {.order = shell("echo hello; exit 3")});
  EXPECT_TRUE(watched.supervisor.running("one"));
  watched.run();
  EXPECT_FALSE(watched.supervisor.running("one"));
  EXPECT_THAT(watched.told, ElementsAre("one says hello", "one exited with code 3"));
}

TEST(Supervisor, StartsAgainWhatFailedAsOftenAsItMay) {
  Watched watched;
  watched.supervisor.start("one", {.order = shell("kill -9 $$"), .restarts = 2});
  watched.run();
  EXPECT_THAT(watched.told, ElementsAre("one again: killed by signal 9 (Killed)",
                                        "one again: killed by signal 9 (Killed)", "one killed by signal 9 (Killed)"));
}

TEST(Supervisor, MayStartItOtherwiseTheNextTime) {
  Watched watched;
  watched.supervisor.start(
      "one", {.order = shell("exit 1"),
              .again = [](const Ending& ending) { return shell(fmt::format("echo not {}", ending.code)); },
              .restarts = 1});
  watched.run();
  EXPECT_THAT(watched.told, ElementsAre("one again: exited with code 1", "one says not 1", "one exited with code 0"));
}

TEST(Supervisor, MayFindThatAnotherStartMakesNoSense) {
  Watched watched;
  watched.supervisor.start(
      "one", {.order = shell("exit 1"), .again = [](const Ending&) { return std::nullopt; }, .restarts = 9});
  watched.run();
  EXPECT_THAT(watched.told, ElementsAre("one exited with code 1"));
}

TEST(Supervisor, EndsWhatWasToBeStartedAgainWhenAllAreStopped) {
  Watched watched;
  int starts = 0;
  watched.supervisor.start("one", {.order = shell("exit 1"),
                                   .again = [&](const Ending&) -> std::optional<ProcessOrder> {
                                     if (++starts == 1)
                                       watched.supervisor.start("two", {.order = shell("exec sleep 60")});
                                     return shell("exit 1");
                                   },
                                   .restarts = 1'000'000});
  while (!watched.supervisor.running("two")) watched.loop.turn();
  watched.supervisor.stop_all(1'000);  // "one" may have failed at this moment, and wait to be started again
  watched.run();
  EXPECT_FALSE(watched.supervisor.running("one"));
}

TEST(Supervisor, DoesNotStartAgainWhatNoStartWouldMend) {
  Watched watched;
  watched.supervisor.start("done", {.order = shell("exit 0"), .restarts = 2});
  watched.supervisor.start("wrong", {.order = shell("exit 6"), .restarts = 2, .final_codes = {6}});
  watched.run();
  EXPECT_THAT(watched.told, ::testing::UnorderedElementsAre("done exited with code 0", "wrong exited with code 6"));
}

TEST(Supervisor, StopsAllAndKillsWhoDoesNotListen) {
  Watched watched;
  watched.supervisor.start("tame", {.order = shell("exec sleep 100"), .restarts = 5});
  watched.supervisor.start("deaf",
                           {.order = shell("trap '' TERM; echo ready; while :; do sleep 100; done"), .restarts = 5});
  while (watched.told.empty()) watched.loop.turn();  // its trap is set
  watched.supervisor.stop_all(50);
  watched.run();
  EXPECT_THAT(watched.told, ::testing::UnorderedElementsAre("deaf says ready", "tame killed by signal 15 (Terminated)",
                                                            "deaf killed by signal 9 (Killed)"));
}

TEST(Supervisor, AProgramThatIsMissingIsNamed) {
  Watched watched;
  EXPECT_THROW(watched.supervisor.start("one", {.order = {.arguments = {"/no/such/program"}}}), UsageError);
  EXPECT_EQ(watched.supervisor.running(), 0);
}

}  // namespace
}  // namespace paceline
