#include "paceline/launch/launch_verdict.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LaunchVerdict, IsGoodWhenNobodyFailed) { EXPECT_EQ(LaunchVerdict().exit_code(), 0); }

TEST(LaunchVerdict, BlamesTheFirst) {
  LaunchVerdict verdict;
  verdict.add_failure(2, {.code = 3});
  verdict.add_failure(0, {.code = 4});
  EXPECT_EQ(verdict.rank(), 2);
  EXPECT_EQ(verdict.exit_code(), 3);
}

TEST(LaunchVerdict, DoesNotBlameWhoFailedBecauseOfAnother) {
  LaunchVerdict verdict;
  verdict.add_failure(0, {.code = 7});
  verdict.add_failure(1, {.signal = 9});
  EXPECT_EQ(verdict.rank(), 1);
  EXPECT_EQ(verdict.exit_code(), 137);
}

TEST(LaunchVerdict, BlamesTheFirstWhenAllBlameAnother) {
  LaunchVerdict verdict;
  verdict.add_failure(3, {.code = 7});
  verdict.add_failure(1, {.code = 7});
  EXPECT_EQ(verdict.rank(), 3);
  EXPECT_EQ(verdict.exit_code(), 7);
}

TEST(LaunchVerdict, SaysHowItEnded) {
  EXPECT_EQ((Ending{.code = 3}).text(), "exited with code 3");
  EXPECT_EQ((Ending{.signal = 9}).text(), "killed by signal 9 (Killed)");
  LaunchVerdict killed;
  killed.add_failure(1, {.signal = 11});
  EXPECT_EQ(killed.text("rank 1 on host b", true),
            "rank 1 on host b was killed by signal 11 (Segmentation fault); the other ranks were ended\n");
  LaunchVerdict lost;
  lost.add_failure(1, {.lost = "'ssh' exited with code 255"});
  EXPECT_EQ(lost.text("rank 1 on host b", false), "rank 1 on host b was lost: 'ssh' exited with code 255\n");
  EXPECT_EQ(lost.exit_code(), 7);
}

TEST(LaunchVerdict, QuotesTheLastLinesOfTheOneToBlame) {
  LaunchVerdict verdict;
  for (int line = 1; line <= 12; ++line) verdict.add_error_line(1, "line " + std::to_string(line));
  verdict.add_error_line(0, "another rank failed");
  verdict.add_failure(1, {.code = 1});
  const std::string text = verdict.text("rank 1", false);
  EXPECT_THAT(text, HasSubstr("Its last lines on standard error:\n  line 3\n"));
  EXPECT_THAT(text, HasSubstr("line 12\n"));
  EXPECT_THAT(text, Not(HasSubstr("another rank failed")));
}

}  // namespace
}  // namespace paceline
