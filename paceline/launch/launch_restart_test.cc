// Ranks that fail and are started again: alone, all together, through an agent on another host.
#include "paceline/launch/test_launch.h"

namespace paceline {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

Launched restarted(std::vector<std::string> options, const std::string& script) {
  options.insert(options.end(), {"restart_pause_ms=1", "--", "sh", "-c", script});
  return Launched(std::move(options));
}

class RestartTest : public testing::Test {
 protected:
  RestartTest() { EXPECT_EQ(std::system(("mkfifo " + fifo_).c_str()), 0); }

  const TestFolder folder_;
  const std::string fifo_ = folder_.path() / "fifo";
  const std::string program_ = std::filesystem::read_symlink("/proc/self/exe");
};

TEST_F(RestartTest, ARankThatFailsIsStartedAgainAndTheOthersGoOn) {
  // Rank 0 ends when rank 1 has come for the third time.
  Launched run =
      restarted({"ranks=2", "restarts=2"},
                "echo start $PACELINE_RESTARTS of generation $PACELINE_GENERATION; [ $PACELINE_RANK = 0 ] && "
                "{ cat " +
                    fifo_ +
                    "; exit 0; }; case $PACELINE_RESTARTS in 0) kill -9 $$;; 1) exit 1;; esac; "
                    "echo done > " +
                    fifo_);
  EXPECT_EQ(run.finish(), 0);
  EXPECT_THAT(run.output_lines(),
              UnorderedElementsAre("[0] start 0 of generation 0", "[1] start 0 of generation 0",
                                   "[1] start 1 of generation 0", "[1] start 2 of generation 0", "[0] done"));
  EXPECT_THAT(run.errors, AllOf(HasSubstr("was killed by signal 9 (Killed): it is started again (1 of 2)\n"),
                                HasSubstr(" exited with code 1: it is started again (2 of 2)\n"),
                                Not(HasSubstr("the other ranks were ended"))));
}

TEST_F(RestartTest, AfterTheLastTimeAllEnd) {
  Launched run = restarted({"ranks=2", "restarts=2", "grace_ms=10"},
                           "[ $PACELINE_RANK = 0 ] && exec sleep 1000; echo start; exit 9");
  EXPECT_EQ(run.finish(), 9);
  EXPECT_EQ(run.output, "[1] start\n[1] start\n[1] start\n");
  EXPECT_THAT(run.errors, HasSubstr(" exited with code 9; the other ranks were ended\n"));
}

TEST_F(RestartTest, WhatNoStartWouldMendIsNotStartedAgain) {
  Launched run = restarted({"ranks=2", "restarts=2", "grace_ms=10"},
                           "[ $PACELINE_RANK = 0 ] && exec sleep 1000; echo start; exit 3");
  EXPECT_EQ(run.finish(), 3);
  EXPECT_EQ(run.output, "[1] start\n");
}

TEST_F(RestartTest, AGroupIsStartedAgainAsAWhole) {
  // Rank 1 is known at the store, and exits with 7 when it hears of rank 0's death.
  Launched run = restarted({"ranks=2", "restarts=1"},
                           "echo start $PACELINE_RESTARTS of generation $PACELINE_GENERATION; "
                           "[ $PACELINE_GENERATION = 1 ] && exit 0; [ $PACELINE_RANK = 0 ] && { cat " +
                               fifo_ + "; kill -9 $$; }; " + program_ + " wait-for-news | { read a; echo > " + fifo_ +
                               "; cat > /dev/null; }; exit 7");
  EXPECT_EQ(run.finish(), 0);
  const std::vector<std::string> lines = run.output_lines();
  for (const char* line : {"[0] start 0 of generation 0", "[1] start 0 of generation 0", "[0] start 1 of generation 1",
                           "[1] start 1 of generation 1"})
    EXPECT_THAT(lines, testing::Contains(line).Times(1));
  EXPECT_THAT(run.errors, AllOf(HasSubstr("paceline: rank 0 on host "),
                                HasSubstr("was killed by signal 9 (Killed); the other ranks were ended\n"),
                                HasSubstr("paceline: all ranks are started again (1 of 1)\n")));
}

TEST_F(RestartTest, AGroupThatFailsOnceMoreEndsTheLauncher) {
  Launched run = restarted({"ranks=2", "restarts=1", "grace_ms=10"},
                           "echo start; [ $PACELINE_RANK = 0 ] && { cat " + fifo_ + "; exit 9; }; " + program_ +
                               " wait-for-news | { read a; echo > " + fifo_ + "; cat > /dev/null; }; exit 7");
  EXPECT_EQ(run.finish(), 9);
  EXPECT_EQ(std::ranges::count(run.output_lines(), "[0] start"), 2);
}

TEST_F(RestartTest, CtrlCEndsARankThatWaitsForItsStart) {
  Launched run({"ranks=1", "restarts=100", "restart_pause_ms=300", "--", "sh", "-c", "echo start; exit 9"});
  run.wait_for("start");
  run.signal(SIGINT);
  EXPECT_EQ(run.finish(), 130);
}

class RestartOnHostsTest : public RestartTest {
 protected:
  RestartOnHostsTest() {
    std::ofstream(reach_) << "#!/bin/sh\nshift\nexec \"$@\"\n";
    std::filesystem::permissions(reach_, std::filesystem::perms::owner_all);
  }
  std::vector<std::string> hosts(const std::string& hosts, std::vector<std::string> more) const {
    more.insert(more.end(), {"hosts=" + hosts, "rsh=" + reach_, "address=127.0.0.1"});
    return more;
  }

  const std::string reach_ = folder_.path() / "reach";
};

TEST_F(RestartOnHostsTest, AnAgentStartsItsRankAgain) {
  Launched run = restarted(hosts("localhost:1,b:1", {"restarts=2"}),
                           "echo start $PACELINE_RESTARTS; [ $PACELINE_RANK = 0 ] && { cat " + fifo_ +
                               "; exit 0; }; [ $PACELINE_RESTARTS = 2 ] || kill -9 $$; echo done > " + fifo_);
  EXPECT_EQ(run.finish(), 0);
  EXPECT_THAT(run.output_lines(),
              UnorderedElementsAre("[0] start 0", "[1] start 0", "[1] start 1", "[1] start 2", "[0] done"));
  EXPECT_THAT(run.errors,
              HasSubstr("rank 1 on host b was killed by signal 9 (Killed): it is started again (1 of 2)\n"));
}

TEST_F(RestartOnHostsTest, AgentsStartAGroupAgainAlsoWhenItsRanksMustBeKilled) {
  Launched run = restarted(hosts("a:1,b:1", {"restarts=1", "grace_ms=10", "term_ms=10"}),
                           "[ $PACELINE_GENERATION = 1 ] && { echo again; exit 0; }; trap '' TERM; "
                           "[ $PACELINE_RANK = 0 ] && { cat " +
                               fifo_ + " > /dev/null; kill -9 $$; }; " + program_ +
                               " wait-for-news | { read a; echo > " + fifo_ + "; cat > /dev/null; }; exec sleep 1000");
  EXPECT_EQ(run.finish(), 0);
  EXPECT_THAT(run.output_lines(), UnorderedElementsAre("[0] again", "[1] again"));
}

TEST(Restart, IsRefusedWhereMpirunStartsTheRanks) {
  Launched run({"ranks=2", "restarts=1", "engine=mpi", "--", "true"});
  EXPECT_EQ(run.finish(), 2);
  EXPECT_THAT(run.errors, AllOf(HasSubstr("--restart does not go with --engine mpi"), HasSubstr("--resume")));
}

}  // namespace
}  // namespace paceline
