#include "paceline/core/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Check, PassesInSilence) {
  EXPECT_NO_THROW({
    CHECK_TRUE(1 + 1 == 2, "arithmetic");
    CHECK_EQ(1, 1);
    CHECK_NE(1, 2);
    CHECK_LT(1, 2);
    CHECK_LE(2, 2);
    CHECK_GT(2, 1);
    CHECK_GE(2, 2);
  });
}

TEST(Check, AFailedComparisonSaysWhereWhatAndBothValues) {
  const int used = 5, room = 3;
  EXPECT_THAT([&] { CHECK_LE(used, room); },
              ThrowsMessage<InternalError>(AllOf(HasSubstr("check_test.cc:"), HasSubstr("used <= room (5 vs. 3)"),
                                                 HasSubstr("bug in Paceline"))));
}

TEST(Check, EveryComparisonFailsAtItsEdge) {
  EXPECT_THROW(CHECK_EQ(1, 2), InternalError);
  EXPECT_THROW(CHECK_NE(1, 1), InternalError);
  EXPECT_THROW(CHECK_LT(1, 1), InternalError);
  EXPECT_THROW(CHECK_LE(2, 1), InternalError);
  EXPECT_THROW(CHECK_GT(1, 1), InternalError);
  EXPECT_THROW(CHECK_GE(1, 2), InternalError);
}

TEST(Check, AFailedConditionIsExplained) {
  EXPECT_THAT([] { CHECK_TRUE(false, "bucket {} has no algorithm", 7); },
              ThrowsMessage<InternalError>(HasSubstr("false: bucket 7 has no algorithm")));
}

TEST(Check, EvaluatesItsOperandsOnce) {
  int calls = 0;
  const auto count = [&] { return ++calls; };
  CHECK_EQ(count(), 1);
  EXPECT_EQ(calls, 1);
}

TEST(Check, IsOneStatement) {
  if (false)
    CHECK_EQ(1, 2);
  else
    SUCCEED();
  EXPECT_EQ(static_cast<int>(InternalError("").exit_code()), 70);
}

}  // namespace
}  // namespace paceline
