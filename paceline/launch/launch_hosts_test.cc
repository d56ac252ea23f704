// Ranks of several hosts. A "host" is this machine, reached through a script that drops the host's name; or mpirun.
#include <fstream>

#include "paceline/launch/launch_protocol.h"
#include "paceline/launch/test_launch.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class LaunchHostsTest : public ::testing::Test {
 protected:
  // A command for --rsh.
  std::string rsh(const std::string& script = "shift; exec \"$@\"", const std::string& name = "reach") {
    const std::filesystem::path file = folder_.path() / name;
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return "rsh=" + file.string();
  }
  Launched run(std::vector<std::string> options, const std::string& script) {
    options.insert(options.end(), {"address=127.0.0.1", "--", "/bin/sh", "-c", script});
    return Launched(options);
  }

  TestFolder folder_;
};

TEST_F(LaunchHostsTest, RanksRunWhereTheyBelong) {
  Launched launched = run({"hosts=a:2,localhost:1,b", rsh()},
                          "echo $PACELINE_RANK/$PACELINE_SIZE $PACELINE_LOCAL_RANK/$PACELINE_LOCAL_SIZE; echo e >&2");
  EXPECT_EQ(launched.finish(), 0);
  EXPECT_THAT(launched.output_lines(),
              UnorderedElementsAre("[0] 0/4 0/2", "[1] 1/4 1/2", "[2] 2/4 0/1", "[3] 3/4 0/1"));
  for (const char* line : {"[0] e\n", "[1] e\n", "[2] e\n", "[3] e\n"}) EXPECT_THAT(launched.errors, HasSubstr(line));
}

TEST_F(LaunchHostsTest, SettingsAndFolderGoAlong) {
  ::setenv("PACELINE_FLIGHT_DIR", "/tmp/flights", 1);
  Launched launched = run({"hosts=a", rsh("shift; cd /; exec env -i \"$@\"")}, "echo $PACELINE_FLIGHT_DIR; pwd -P");
  ::unsetenv("PACELINE_FLIGHT_DIR");
  EXPECT_EQ(launched.finish(), 0);
  EXPECT_EQ(launched.output, fmt::format("[0] /tmp/flights\n[0] {}\n", std::filesystem::current_path().string()));
}

TEST_F(LaunchHostsTest, TheShellThatSshStartsFindsAProgramOfAnyName) {
  const std::filesystem::path program = folder_.path() / "it's; here $HOME";
  std::filesystem::create_symlink(std::filesystem::read_symlink("/proc/self/exe"), program);
  const std::string as_ssh_does = "shift; exec /bin/sh -c \"$*\"";
  Launched launched = run({"hosts=a", rsh(as_ssh_does, "ssh"), "remote_program=" + program.string()}, "echo hello");
  EXPECT_EQ(launched.finish(), 0);
  EXPECT_EQ(launched.output, "[0] hello\n");
}

TEST_F(LaunchHostsTest, MuchOutputArrivesWholeAndInOrder) {
  Launched launched = run({"hosts=a:2", rsh()}, "seq 1 20000; printf '\\377x'");
  EXPECT_EQ(launched.finish(), 0);
  std::map<std::string, int> last;
  for (const std::string& line : launched.output_lines()) {
    const int expected = ++last[line.substr(0, 4)];
    EXPECT_EQ(line.substr(4), expected <= 20000 ? fmt::format("{}", expected) : "\xef\xbf\xbdx");
  }
  EXPECT_EQ(last["[0] "], 20001);
  EXPECT_EQ(last["[1] "], 20001);
}

TEST_F(LaunchHostsTest, AFailureElsewhereEndsAll) {
  Launched launched = run({"hosts=a:1,localhost:1,b:1", "grace_ms=10", rsh()},
                          "[ $PACELINE_RANK = 2 ] && { echo why >&2; exit 4; }; exec sleep 1000");
  EXPECT_EQ(launched.finish(), 4);
  EXPECT_THAT(launched.errors, HasSubstr("paceline: rank 2 on host b exited with code 4; the other ranks were ended\n"
                                         "Its last lines on standard error:\n  why\n"));
}

TEST_F(LaunchHostsTest, CtrlCReachesRanksElsewhere) {
  Launched launched = run({"hosts=a:1,localhost:1", rsh()},
                          "trap 'echo saved; exit 0' INT; echo ready $PACELINE_RANK; "
                          "while :; do sleep 1000 > /dev/null 2>&1 & wait; done");
  launched.wait_for("ready 0");
  launched.wait_for("ready 1");
  launched.signal(SIGINT);
  EXPECT_EQ(launched.finish(), 130);
  EXPECT_THAT(launched.output, AllOf(HasSubstr("[0] saved\n"), HasSubstr("[1] saved\n")));
}

TEST_F(LaunchHostsTest, AnAgentsDeathIsItsRanksLoss) {
  const std::string agent = folder_.path() / "agent";
  Launched launched = run({"hosts=localhost:1,a:2", "grace_ms=10", rsh("echo $$ > " + agent + "; shift; exec \"$@\"")},
                          "echo pid $$; exec sleep 1000");
  for (const char* label : {"[0] pid ", "[1] pid ", "[2] pid "}) launched.wait_for(label);
  ::kill(std::stoi(read_file(agent)), SIGKILL);
  EXPECT_EQ(launched.finish(), 7);
  EXPECT_THAT(launched.errors, HasSubstr("paceline: rank 1 on host a was lost: "));
  EXPECT_THAT(launched.errors, HasSubstr("killed by signal 9 (Killed)"));
  for (const char* label : {"[0] pid ", "[1] pid ", "[2] pid "}) expect_end_of(pid_in(launched.output, label));
}

TEST_F(LaunchHostsTest, RanksAndTheirChildrenGoWhenTheLauncherIsKilled) {
  Launched launched = run({"hosts=a:1", rsh()}, "sleep 1000 & echo child $!; echo pid $$; wait");
  launched.wait_for("pid ");
  launched.signal(SIGKILL);
  EXPECT_EQ(launched.finish(), 137);
  expect_end_of(pid_in(launched.output, "pid "));
  expect_end_of(pid_in(launched.output, "child "));
}

TEST_F(LaunchHostsTest, TheSecretTravelsOutOfSight) {
  const std::string file = folder_.path() / "secret";
  Launched launched = run({"hosts=a:1", rsh()}, "echo $PACELINE_SECRET > " + file + "; echo ready; exec sleep 1000");
  launched.wait_for("ready");
  const std::string secret = read_file(file).substr(0, 64);
  EXPECT_EQ(secret.size(), 64);
  EXPECT_FALSE(is_in_some_command_line(secret));
  launched.signal(SIGTERM);
  EXPECT_EQ(launched.finish(), 143);
  EXPECT_THAT(launched.output + launched.errors, Not(HasSubstr(secret)));
}

TEST_F(LaunchHostsTest, AHostThatCannotBeReachedIsNamed) {
  Launched launched =
      run({"hosts=localhost:1,b:1", rsh("echo \"connect to $1: No route to host\" >&2; exit 255")}, "echo no");
  EXPECT_EQ(launched.finish(), 7);
  EXPECT_EQ(launched.output, "");
  EXPECT_THAT(launched.errors, AllOf(StartsWith("paceline: cannot start ranks on host b: '"), HasSubstr("reach b "),
                                     HasSubstr(" launch --agent' exited with code 255; it said: "
                                               "connect to b: No route to host\n")));
}

TEST_F(LaunchHostsTest, AHostThatIsSilentIsNamed) {
  Launched launched = run({"hosts=b", "hello_ms=50", rsh("exec sleep 1000")}, "echo no");
  EXPECT_EQ(launched.finish(), 7);
  EXPECT_THAT(launched.errors, AllOf(HasSubstr("host b"), HasSubstr("was silent for 0.05 s")));
}

TEST_F(LaunchHostsTest, AnAgentThatOnlySaysHelloIsNamed) {
  std::string hello = hello_line();
  hello.pop_back();
  Launched launched =
      run({"hosts=b,c", rsh("[ $1 = b ] && echo '" + hello + "'; [ $1 = b ] && exit 3; exec sleep 1000")}, "echo no");
  EXPECT_EQ(launched.finish(), 7);
  EXPECT_THAT(launched.errors, AllOf(HasSubstr("host b"), HasSubstr("exited with code 3")));
}

TEST_F(LaunchHostsTest, AnAgentOfAnotherVersionIsNamed) {
  Launched launched = run({"hosts=b", rsh("echo '{\"hello\": \"0.0.1\"}'; exec sleep 1000")}, "echo no");
  EXPECT_EQ(launched.finish(), 7);
  EXPECT_THAT(launched.errors, HasSubstr("host b has paceline 0.0.1"));
}

TEST_F(LaunchHostsTest, CtrlCEndsTheWaitForASilentHost) {
  Launched launched = run({"hosts=b", rsh("echo hello; echo $$ > " + (folder_.path() / "pid").string() +
                                          "; kill -INT $PPID; exec sleep 1000")},
                          "echo no");
  EXPECT_EQ(launched.finish(), 130);
  expect_end_of(std::stoi(read_file(folder_.path() / "pid")));
}

TEST_F(LaunchHostsTest, WhatAHostsShellSaysIsPassedOn) {
  Launched launched = run({"hosts=a", rsh("echo Welcome; echo banner >&2; shift; exec \"$@\"")}, "echo hello");
  EXPECT_EQ(launched.finish(), 0);
  EXPECT_EQ(launched.output, "[0] hello\n");
  EXPECT_THAT(launched.errors, AllOf(HasSubstr("[a] Welcome\n"), HasSubstr("[a] banner\n")));
}

TEST_F(LaunchHostsTest, AProgramThatIsMissingElsewhereIsNamedWithItsHost) {
  Launched launched({"hosts=a", "address=127.0.0.1", rsh(), "--", "no-such-program"});
  EXPECT_EQ(launched.finish(), 2);
  EXPECT_THAT(launched.errors, StartsWith("paceline: on host a: cannot run 'no-such-program': "));
}

TEST_F(LaunchHostsTest, ANameThatDoesNotResolveNeedsAnAddress) {
  Launched launched({"hosts=no-such-host.invalid", rsh(), "--", "true"});
  EXPECT_EQ(launched.finish(), 7);
  EXPECT_THAT(launched.errors, AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("--address")));
}

// ---- mpirun ----

class MpirunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      find_program("mpirun");
    } catch (const UsageError&) {
      GTEST_SKIP() << "no mpirun here";
    }
  }
};

TEST_F(MpirunTest, StartsRanksOfTheMpiEngine) {
  Launched launched(
      {"ranks=2", "engine=mpi", "address=127.0.0.1", "--", "sh", "-c",
       "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $PACELINE_ENGINE $PACELINE_ADDRESS; echo e >&2"});
  EXPECT_EQ(launched.finish(), 0);
  EXPECT_THAT(launched.output_lines(), UnorderedElementsAre("[0] 0/2 mpi 127.0.0.1", "[1] 1/2 mpi 127.0.0.1"));
  EXPECT_THAT(launched.errors, AllOf(HasSubstr("[0] e\n"), HasSubstr("[1] e\n")));
}

TEST_F(MpirunTest, PassesTheExitCodeOn) {
  Launched launched({"ranks=2", "engine=shm+mpi", "--", "sh", "-c", "exit $((3 * OMPI_COMM_WORLD_RANK))"});
  EXPECT_EQ(launched.finish(), 3);
  EXPECT_THAT(launched.errors, HasSubstr("paceline: mpirun exited with code 3\n"));
}

TEST(MpirunPackage, IsNamedWhereMpirunIsMissing) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  Launched launched({"ranks=2", "engine=mpi", "--", "/bin/true"});
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(launched.finish(), 2);
  EXPECT_THAT(launched.errors, HasSubstr("openmpi-bin"));
}

}  // namespace
}  // namespace paceline
