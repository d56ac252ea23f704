#include "paceline/launch/launch.h"

#include "paceline/launch/test_launch.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

Launched shell_ranks(int ranks, const std::string& script, std::vector<std::string> options = {},
                     ProcessOrder::Input input = ProcessOrder::Input::nothing) {
  options.insert(options.begin(), fmt::format("ranks={}", ranks));
  options.insert(options.end(), {"--", "/bin/sh", "-c", script});
  return Launched(options, input);
}

// ---- output ----

TEST(Launch, PutsEachRanksLinesBehindItsNumber) {
  Launched run = shell_ranks(3, "echo out; echo err >&2");
  EXPECT_EQ(run.finish(), 0);
  EXPECT_THAT(run.output_lines(), UnorderedElementsAre("[0] out", "[1] out", "[2] out"));
  EXPECT_THAT(run.errors, AllOf(HasSubstr("[0] err\n"), HasSubstr("[1] err\n"), HasSubstr("[2] err\n")));
}

TEST(Launch, KeepsTheOrderOfEachRank) {
  Launched run = shell_ranks(2, "seq 1 5000");
  EXPECT_EQ(run.finish(), 0);
  std::map<std::string, int> last;
  for (const std::string& line : run.output_lines()) EXPECT_EQ(std::stoi(line.substr(4)), ++last[line.substr(0, 4)]);
  EXPECT_EQ(last["[0] "], 5000);
  EXPECT_EQ(last["[1] "], 5000);
}

TEST(Launch, EndsTheLastLineThatHasNoEnd) {
  Launched run = shell_ranks(1, "printf 'a\\nb'");
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.output, "[0] a\n[0] b\n");
}

TEST(Launch, CutsVeryLongLines) {
  Launched run = shell_ranks(1, "head -c 200000 /dev/zero | tr '\\0' x; echo; echo next");
  EXPECT_EQ(run.finish(), 0);
  const std::string piece = "[0] " + std::string(64 << 10, 'x');
  EXPECT_THAT(run.output_lines(),
              ElementsAre(piece, piece, piece, "[0] " + std::string(200000 - (3 << 16), 'x'), "[0] next"));
}

TEST(Launch, LeavesLinesAloneOnRequest) {
  Launched run = shell_ranks(1, "printf '10 %%\\r20 %%\\n'", {"prefixes=0"});
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.output, "10 %\n20 %\n");
}

TEST(Launch, KeepsLinesWholeWhereBothStreamsAreOne) {
  TestFolder folder;
  const std::string file = folder.path() / "log";
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = program + " launch ranks=2 -- sh -c 'seq 1 3000; seq 1 3000 >&2' > " + file + " 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::istringstream lines(read_file(file));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    ASSERT_TRUE(line.size() > 4 && line[0] == '[' && line.find_first_not_of("0123456789", 4) == std::string::npos)
        << line;
  EXPECT_EQ(count, 12000);
}

// ---- what ranks are told ----

TEST(Launch, TellsRanksWhoTheyAre) {
  Launched run = shell_ranks(2,
                             "echo $PACELINE_RANK/$PACELINE_SIZE $PACELINE_LOCAL_RANK/$PACELINE_LOCAL_SIZE "
                             "$PACELINE_GENERATION $PACELINE_ENGINE $PACELINE_TIMEOUT $PACELINE_STORE",
                             {"engine=shm", "timeout_s=5"});
  EXPECT_EQ(run.finish(), 0);
  EXPECT_THAT(run.output_lines(), UnorderedElementsAre(StartsWith("[0] 0/2 0/2 0 shm 5 127.0.0.1:"),
                                                       StartsWith("[1] 1/2 1/2 0 shm 5 127.0.0.1:")));
}

TEST(Launch, GivesAllRanksOneJobAndSecretAndAnotherRunOthers) {
  std::vector<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    Launched run = shell_ranks(2, "echo $PACELINE_JOB $(echo $PACELINE_SECRET | sha256sum)");
    EXPECT_EQ(run.finish(), 0);
    const auto lines = run.output_lines();
    ASSERT_EQ(lines.size(), 2);
    EXPECT_EQ(lines[0].substr(4), lines[1].substr(4));
    seen.push_back(lines[0].substr(4));
  }
  EXPECT_NE(seen[0], seen[1]);
}

TEST(Launch, KeepsTheSecretFromCommandLinesAndOutput) {
  TestFolder folder;
  const std::string file = folder.path() / "secret";
  Launched run = shell_ranks(2,
                             "[ $PACELINE_RANK = 0 ] && echo $PACELINE_SECRET > " + file + ".new && mv " + file +
                                 ".new " + file + " && echo ready; read x; exit 3",
                             {}, ProcessOrder::Input::pipe);
  run.wait_for("ready");
  const std::string secret = read_file(file).substr(0, 64);
  EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_FALSE(is_in_some_command_line(secret));
  run.write("go\n");
  EXPECT_EQ(run.finish(), 3);
  EXPECT_THAT(run.output + run.errors, Not(HasSubstr(secret)));
}

TEST(Launch, GivesItsInputToRankZero) {
  Launched run = shell_ranks(2, "cat; echo end", {}, ProcessOrder::Input::pipe);
  run.write("hello\n");
  EXPECT_EQ(run.finish(), 0);
  EXPECT_THAT(run.output_lines(), UnorderedElementsAre("[0] hello", "[0] end", "[1] end"));
}

TEST(Launch, RunsInItsOwnFolder) {
  Launched run = shell_ranks(1, "pwd -P");
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.output, fmt::format("[0] {}\n", std::filesystem::current_path().string()));
}

// ---- failures ----

TEST(Launch, ExitsAsTheFailedRankDid) {
  Launched run = shell_ranks(2, "echo before >&2; [ $PACELINE_RANK = 1 ] && exit 3; exec sleep 1000", {"grace_ms=10"});
  EXPECT_EQ(run.finish(), 3);
  EXPECT_THAT(run.errors, AllOf(HasSubstr("\npaceline: rank 1 on host "),
                                HasSubstr(" exited with code 3; the other ranks were ended\n"),
                                EndsWith("Its last lines on standard error:\n  before\n")));
}

TEST(Launch, ARankMayEndEarlyInOrder) {
  TestFolder folder;
  const std::string fifo = folder.path() / "fifo";
  ASSERT_EQ(std::system(("mkfifo " + fifo).c_str()), 0);
  // Rank 1 goes on when rank 0 has exited, and so closed the pipe.
  Launched run =
      shell_ranks(2, "[ $PACELINE_RANK = 0 ] && exec 3> " + fifo + " && exit 0; cat " + fifo + "; echo later");
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.output, "[1] later\n");
}

TEST(Launch, ADeathEndsOthersThatIgnoreItWithinTwoSeconds) {
  TestFolder folder;
  const std::string fifo = folder.path() / "fifo";
  ASSERT_EQ(std::system(("mkfifo " + fifo).c_str()), 0);
  Launched run =
      shell_ranks(3, "[ $PACELINE_RANK = 0 ] || { trap '' TERM; echo pid $$; echo > " + fifo +
                         "; exec sleep 1000; }; exec 3<> " + fifo + "; read a <&3; read b <&3; echo dying; kill -9 $$");
  run.wait_for("dying");
  const auto death = std::chrono::steady_clock::now();
  EXPECT_EQ(run.finish(), 137);
  EXPECT_LT(seconds_since(death), 2);
  EXPECT_THAT(run.errors, HasSubstr("was killed by signal 9 (Killed); the other ranks were ended"));
  for (const char* label : {"[1] pid ", "[2] pid "}) EXPECT_EQ(::kill(pid_in(run.output, label), 0), -1);
}

TEST(Launch, TellsTheOthersHowARankDied) {
  TestFolder folder;
  const std::string fifo = folder.path() / "fifo";
  ASSERT_EQ(std::system(("mkfifo " + fifo).c_str()), 0);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  Launched run = shell_ranks(2, "[ $PACELINE_RANK = 0 ] && { cat " + fifo + "; exit 9; }; " + program +
                                    " wait-for-news | { read a; echo $a; echo > " + fifo + "; cat; }; exit 7");
  EXPECT_EQ(run.finish(), 9);
  EXPECT_THAT(run.output, HasSubstr("[1] watching\n"));
  EXPECT_THAT(run.output, HasSubstr("[1] rank 0 exited with code 9\n"));
}

TEST(Launch, BlamesTheRootAndNotWhoFollowed) {
  TestFolder folder;
  const std::string fifo = folder.path() / "fifo";
  ASSERT_EQ(std::system(("mkfifo " + fifo).c_str()), 0);
  Launched run = shell_ranks(2, "[ $PACELINE_RANK = 0 ] && exec 3> " + fifo + " && exit 7; cat " + fifo + "; exit 5");
  EXPECT_EQ(run.finish(), 5);
  EXPECT_THAT(run.errors, StartsWith("paceline: rank 1 on host "));
}

TEST(Launch, LeavesNoGrandchildren) {
  Launched run =
      shell_ranks(2, "sleep 1000 & echo pid $!; [ $PACELINE_RANK = 1 ] && kill -9 $$; wait", {"grace_ms=10"});
  EXPECT_EQ(run.finish(), 137);
  if (run.output.find("[0] pid") != std::string::npos) expect_end_of(pid_in(run.output, "[0] pid "));
  expect_end_of(pid_in(run.output, "[1] pid "));
}

TEST(Launch, SaysThatAProgramIsMissing) {
  Launched missing({"ranks=2", "--", "no-such-program"});
  EXPECT_EQ(missing.finish(), 2);
  EXPECT_THAT(missing.errors, AllOf(StartsWith("paceline: cannot run 'no-such-program': "), EndsWith("\n")));
  Launched folder({"ranks=2", "--", "/tmp"});
  EXPECT_EQ(folder.finish(), 2);
  Launched nothing({"ranks=2"});
  EXPECT_EQ(nothing.finish(), 2);
  EXPECT_THAT(nothing.errors, HasSubstr("say what to run"));
}

TEST(Launch, RefusesImpossibleNumbersOfRanks) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"ranks=0", "--", "true"}, {"ranks=3", "hosts=localhost:2", "--", "true"}}) {
    Launched run(options);
    EXPECT_EQ(run.finish(), 2);
    EXPECT_THAT(run.errors, HasSubstr("-n"));
  }
}

// ---- being ended ----

constexpr const char* kSavesWhenAsked =
    "trap 'echo saved; exit 0' INT TERM; echo ready $PACELINE_RANK; while :; do sleep 1000 > /dev/null 2>&1 & wait; "
    "done";

TEST(Launch, PassesCtrlCOn) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}}) {
    Launched run = shell_ranks(2, kSavesWhenAsked);
    run.wait_for("ready 0");
    run.wait_for("ready 1");
    run.signal(signal);
    EXPECT_EQ(run.finish(), code);
    EXPECT_THAT(run.output, AllOf(HasSubstr("[0] saved\n"), HasSubstr("[1] saved\n")));
    EXPECT_EQ(run.errors, "");
  }
}

TEST(Launch, TheSecondCtrlCKillsAtOnce) {
  Launched run =
      shell_ranks(1, "trap 'echo asked' INT; echo ready; while :; do sleep 1000 > /dev/null 2>&1 & wait; done");
  run.wait_for("ready");
  run.signal(SIGINT);
  run.wait_for("asked");
  run.signal(SIGINT);
  EXPECT_EQ(run.finish(), 130);
}

TEST(Launch, KillsRanksThatDoNotEndWhenAsked) {
  Launched run = shell_ranks(2, "trap '' TERM; echo ready $PACELINE_RANK; exec sleep 1000", {"stop_ms=50"});
  run.wait_for("ready 0");
  run.wait_for("ready 1");
  run.signal(SIGTERM);
  EXPECT_EQ(run.finish(), 143);
}

TEST(Launch, RanksGoWhenTheLauncherIsKilled) {
  Launched run = shell_ranks(2, "echo pid $$; exec sleep 1000");
  run.wait_for("[0] pid ");
  run.wait_for("[1] pid ");
  run.signal(SIGKILL);
  EXPECT_EQ(run.finish(), 137);
  for (const char* label : {"[0] pid ", "[1] pid "}) expect_end_of(pid_in(run.output, label));
}

TEST(Launch, EndsWhenNobodyReadsItsOutput) {
  Launched run = shell_ranks(2, "exec yes");
  run.wait_for("[1] y");
  run.close_output();
  EXPECT_EQ(run.finish(), 128 + SIGPIPE);
}

TEST(Launch, HearsCtrlCWhileItsReaderSleeps) {
  Launched run = shell_ranks(1, "echo pid $$; exec yes");
  run.wait_for("pid ");  // and then reads no more, so that all pipes fill up
  run.signal(SIGTERM);
  expect_end_of(pid_in(run.output, "pid "));
  EXPECT_EQ(run.finish(), 143);
}

}  // namespace
}  // namespace paceline
