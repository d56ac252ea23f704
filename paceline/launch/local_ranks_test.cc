#include "paceline/launch/local_ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class LocalRanksTest : public ::testing::Test {
 protected:
  JobOrder shell_job(const std::string& script, int ranks = 1) {
    JobOrder job = {.command = {"/bin/sh", "-c", script}};
    for (int rank = 0; rank < ranks; ++rank)
      job.ranks.push_back({.rank = rank, .environment = {fmt::format("RANK={}", rank)}});
    return job;
  }
  void run(const std::string& script, int ranks = 1) {
    ranks_.start(shell_job(script, ranks));
    finish();
  }
  void finish() {
    while (!ranks_.gone()) loop_.turn();
  }
  void turn_until(const std::string& line) {
    while (std::ranges::find(output_, line) == output_.end()) loop_.turn();
  }
  // Waits for the end of a process that is not ours.
  static void expect_end_of(pid_t pid) {
    const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (process.number() < 0) return;  // it is no more
    pollfd ended = {process.number(), POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 10'000), 1) << "process " << pid << " still runs";
  }

  PollLoop loop_;
  std::vector<std::string> output_, errors_, endings_;
  LocalRanks ranks_{
      loop_,
      {.line =
           [this](int rank, Stream stream, std::string_view line) {
             (stream == Stream::output ? output_ : errors_).push_back(fmt::format("{} {}", rank, line));
           },
       .ended = [this](int rank,
                       const Ending& ending) { endings_.push_back(fmt::format("{} {}", rank, ending.text())); }},
      ProcessOrder::Input::nothing};
};

TEST_F(LocalRanksTest, GivesLinesAndEndings) {
  run("echo out $RANK; echo err $RANK >&2; exit $RANK", 3);
  EXPECT_THAT(output_, UnorderedElementsAre("0 out 0", "1 out 1", "2 out 2"));
  EXPECT_THAT(errors_, UnorderedElementsAre("0 err 0", "1 err 1", "2 err 2"));
  EXPECT_THAT(endings_, UnorderedElementsAre("0 exited with code 0", "1 exited with code 1", "2 exited with code 2"));
}

TEST_F(LocalRanksTest, TellsSignals) {
  run("kill -9 $$");
  EXPECT_THAT(endings_, ElementsAre("0 killed by signal 9 (Killed)"));
}

TEST_F(LocalRanksTest, GivesAllThatWasWrittenBeforeTheEnd) {
  run("seq 1 20000; printf last");
  ASSERT_EQ(output_.size(), 20001);
  EXPECT_EQ(output_[19999], "0 20000");
  EXPECT_EQ(output_[20000], "0 last");
}

TEST_F(LocalRanksTest, ReadsNothingWherePaused) {
  ranks_.start(shell_job("echo hello >&2; seq 1 100000"));
  ranks_.pause(true);
  bool waited = false;
  loop_.after(50, [&] { waited = true; });
  while (!waited) loop_.turn();
  EXPECT_THAT(output_, IsEmpty());
  EXPECT_THAT(endings_, IsEmpty());  // its pipe is full
  ranks_.pause(false);
  finish();
  EXPECT_EQ(output_.size(), 100000);
}

TEST_F(LocalRanksTest, HasNoInput) {
  run("cat; echo end");
  EXPECT_THAT(output_, ElementsAre("0 end"));
}

TEST_F(LocalRanksTest, KillsWhatARankLeavesBehind) {
  run("sleep 1000 > /dev/null 2>&1 & echo $!; exit 3");
  ASSERT_EQ(output_.size(), 1);
  EXPECT_THAT(endings_, ElementsAre("0 exited with code 3"));
  expect_end_of(std::stoi(output_[0].substr(2)));
}

TEST_F(LocalRanksTest, LetsWhatARankLeavesBehindSayItsLastWords) {
  TestFolder folder;
  const std::string fifo = (folder.path() / "fifo").string();
  // The left one speaks only when the rank itself has exited: until then its end of the pipe is open.
  run("mkfifo " + fifo + "; (exec 3>&-; cat " + fifo + "; echo late) & exec 3>" + fifo + "; exit 0");
  EXPECT_THAT(output_, ElementsAre("0 late"));
}

TEST_F(LocalRanksTest, DoesNotWaitForWhatWritesWithoutEnd) {
  run("yes & exit 0");
  EXPECT_THAT(endings_, ElementsAre("0 exited with code 0"));
}

TEST_F(LocalRanksTest, SignalsGrandchildrenToo) {
  ranks_.start(shell_job("sleep 1000 & echo $!; echo ready; wait"));
  turn_until("0 ready");
  ranks_.signal(SIGKILL);
  finish();
  EXPECT_THAT(endings_, ElementsAre("0 killed by signal 9 (Killed)"));
  expect_end_of(std::stoi(output_[0].substr(2)));
}

TEST_F(LocalRanksTest, RunsAScriptWithoutAnInterpreter) {
  TestFolder folder;
  const std::filesystem::path script = folder.path() / "script";
  std::ofstream(script) << "echo $1\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  ranks_.start({.command = {script, "word"}, .ranks = {{}}});
  finish();
  EXPECT_THAT(output_, ElementsAre("0 word"));
}

TEST(LocalRanks, LeavesNobodyBehindWhenItGoes) {
  PollLoop loop;
  pid_t pid = 0;
  {
    LocalRanks ranks(loop,
                     {.line = [&](int, Stream, std::string_view line) { pid = std::stoi(std::string(line)); },
                      .ended = [](int, const Ending&) {}},
                     ProcessOrder::Input::nothing);
    ranks.start({.command = {"sh", "-c", "trap '' TERM; echo $$; sleep 1000"}, .ranks = {{}}});
    while (pid == 0) loop.turn();
  }
  EXPECT_EQ(::kill(pid, 0), -1);  // reaped: not even a zombie
}

std::string start_error(const std::string& program) {
  try {
    find_program(program);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(FindProgram, LooksInPath) {
  EXPECT_THAT(find_program("sh"), HasSubstr("/sh"));
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
}

TEST(FindProgram, NamesWhatItDidNotFind) {
  TestFolder folder;
  const std::string file = folder.path() / "data";
  std::ofstream(file) << "x";
  EXPECT_THAT(start_error("no-such-program"), HasSubstr("'no-such-program'"));
  EXPECT_THAT(start_error("./nowhere/program"), HasSubstr("'./nowhere/program': there is no such program"));
  EXPECT_THAT(start_error(folder.path()), HasSubstr("there is no such program"));
  EXPECT_THAT(start_error(file), HasSubstr("not executable"));
  EXPECT_THAT(start_error(""), HasSubstr("''"));
}

TEST(ChildProcess, SaysWhenTheProgramCannotBeStarted) {
  TestFolder folder;
  const std::filesystem::path script = folder.path() / "script";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  EXPECT_THROW(ChildProcess({.arguments = {script}}), UsageError);
}

}  // namespace
}  // namespace paceline
