#include "paceline/core/open_files.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Puts the limit back where a test has lowered it.
class OpenFiles : public ::testing::Test {
 protected:
  OpenFiles() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~OpenFiles() override { setrlimit(RLIMIT_NOFILE, &before_); }

  static void limit_to(rlim_t soft, rlim_t hard) {
    const rlimit limit = {soft, hard};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  static rlim_t soft_limit() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }
  rlimit before_{};
};

TEST_F(OpenFiles, TheLimitIsRaisedWhereThatIsAllowed) {
  limit_to(64, before_.rlim_max);
  require_open_files(100, "a run");
  EXPECT_GE(soft_limit(), 100U);
}

TEST_F(OpenFiles, TheLimitIsNeverLowered) {
  limit_to(200, before_.rlim_max);
  allow_open_files(100);
  EXPECT_EQ(soft_limit(), 200U);
}

TEST_F(OpenFiles, MoreThanTheLimitAreRefusedWithTheLimitThatIsNeeded) {
  try {
    require_open_files(before_.rlim_max, "a run of 8 ranks");
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("a run of 8 ranks needs "), HasSubstr("raise the limit with 'ulimit -n ")));
  }
}

}  // namespace
}  // namespace paceline
