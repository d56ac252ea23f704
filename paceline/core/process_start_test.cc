#include "paceline/core/process_start.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

namespace paceline {
namespace {

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

TEST(WithoutIgnored, LeavesOutOnlyWhatIsIgnored) {
  auto* const before = std::signal(SIGHUP, SIG_IGN);
  const sigset_t left = without_ignored(set_of({SIGHUP, SIGTERM}));
  std::signal(SIGHUP, before);
  EXPECT_EQ(sigismember(&left, SIGHUP), 0);
  EXPECT_EQ(sigismember(&left, SIGTERM), 1);
  EXPECT_EQ(sigismember(&left, SIGINT), 0) << "it was not asked for";
}

// The exit code of a child that was started without the given streams: which of its checks failed.
int exit_code_without(std::initializer_list<int> closed) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int descriptor : closed) close(descriptor);
    open_closed_standard_streams();
    struct stat null = {}, found = {};
    stat("/dev/null", &null);
    for (const int descriptor : closed)
      if (fstat(descriptor, &found) != 0 || found.st_rdev != null.st_rdev) _exit(1);
    const int next = open("/dev/zero", O_RDONLY);
    _exit(next > 2 ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(StandardStreams, ClosedOnesLeadNowhere) {
  EXPECT_EQ(exit_code_without({}), 0);
  EXPECT_EQ(exit_code_without({0}), 0);
  EXPECT_EQ(exit_code_without({1}), 0);
  EXPECT_EQ(exit_code_without({0, 1, 2}), 0);
}

}  // namespace
}  // namespace paceline
