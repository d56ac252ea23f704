#include "paceline/metrics/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace paceline {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using Seconds = std::vector<double>;

const Seconds kEven = {1, 1.1, 0.9, 1};
const Seconds kRank3Slow = {1, 1.1, 0.9, 1.6};

TEST(StragglerWatch, NamesARankThatIsSlowInThreeWindowsInARow) {
  StragglerWatch watch({"node1", "node1", "node2", "node2"});
  EXPECT_EQ(watch.observe(kRank3Slow), std::nullopt);
  EXPECT_EQ(watch.observe(kRank3Slow), std::nullopt);
  const auto sentence = watch.observe(kRank3Slow);
  ASSERT_TRUE(sentence.has_value());
  EXPECT_THAT(*sentence, StartsWith("rank 3 (node2) computes 1.6 times as long as the others in the last 3 windows"));
  EXPECT_THAT(*sentence, HasSubstr("train.threads"));
}

TEST(StragglerWatch, ARankThatTheRecipeMakesSlowIsNoRiddle) {
  StragglerWatch watch({"node1", "node2"}, {1, 3});
  const std::vector<double> times = {1, 3};
  watch.observe(times);
  watch.observe(times);
  EXPECT_EQ(watch.observe(times),
            "rank 1 (node2) computes 3.0 times as long as the others in the last 3 windows, and they wait for it, as "
            "sync.slowdown asks");
}

TEST(StragglerWatch, LeavesOutAHostThatItDoesNotKnow) {
  StragglerWatch watch;
  watch.observe(kRank3Slow), watch.observe(kRank3Slow);
  EXPECT_THAT(watch.observe(kRank3Slow).value_or(""), StartsWith("rank 3 computes 1.6 times"));
}

TEST(StragglerWatch, TheFactorIsThatOfAllThreeWindows) {
  StragglerWatch watch;
  watch.observe(Seconds{1, 2, 1}), watch.observe(Seconds{2, 3, 2});
  EXPECT_THAT(watch.observe(Seconds{1, 5, 1}).value_or(""), HasSubstr("rank 1 computes 2.5 times"));  // 10 / 4
}

TEST(StragglerWatch, AGoodWindowInBetweenStartsAnew) {
  StragglerWatch watch;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(watch.observe(kRank3Slow), std::nullopt);
    EXPECT_EQ(watch.observe(kRank3Slow), std::nullopt);
    EXPECT_EQ(watch.observe(kEven), std::nullopt);
  }
}

TEST(StragglerWatch, AnotherRankEachTimeIsNoStraggler) {
  StragglerWatch watch;
  for (size_t window = 0; window < 12; ++window) {
    Seconds seconds(4, 1);
    seconds[window % 4] = 2;
    EXPECT_EQ(watch.observe(seconds), std::nullopt) << window;
  }
}

TEST(StragglerWatch, AQuarterMoreIsNotSlow) {
  for (const double seconds : {1.25, 1.26}) {
    StragglerWatch watch;
    watch.observe(Seconds{1, seconds, 1}), watch.observe(Seconds{1, seconds, 1});
    EXPECT_EQ(watch.observe(Seconds{1, seconds, 1}).has_value(), seconds > 1.25) << seconds;
  }
}

TEST(StragglerWatch, SaysItOnceUntilTheRankHasRecovered) {
  StragglerWatch watch;
  const auto sentences = [&](const Seconds& seconds, int windows) {
    int said = 0;
    for (int i = 0; i < windows; ++i) said += watch.observe(seconds).has_value();
    return said;
  };
  EXPECT_EQ(sentences(kRank3Slow, 20), 1);
  EXPECT_EQ(sentences(kEven, 2), 0);  // not yet: it comes and goes
  EXPECT_EQ(sentences(kRank3Slow, 20), 0);
  EXPECT_EQ(sentences(kEven, 3), 0);
  EXPECT_EQ(sentences(kRank3Slow, 2), 0);
  EXPECT_EQ(sentences(kRank3Slow, 20), 1);
}

TEST(StragglerWatch, OfTwoStragglersNamesTheSlowerOneFirst) {
  StragglerWatch watch;
  const Seconds seconds = {1, 1.5, 1, 3, 1, 1};
  watch.observe(seconds), watch.observe(seconds);
  EXPECT_THAT(watch.observe(seconds).value_or(""), StartsWith("rank 3 computes 3.0 times"));
  EXPECT_THAT(watch.observe(seconds).value_or(""), StartsWith("rank 1 computes 1.5 times"));
  EXPECT_EQ(watch.observe(seconds), std::nullopt);
}

// The median of the others, not of all: of two ranks, the mean of both would hide half of the difference.
TEST(StragglerWatch, ComparesTwoRanksWithEachOther) {
  StragglerWatch watch;
  const Seconds seconds = {1.3, 1};
  watch.observe(seconds), watch.observe(seconds);
  EXPECT_THAT(watch.observe(seconds).value_or(""), StartsWith("rank 0 computes 1.3 times"));
}

TEST(StragglerWatch, IsNotMisledByOneThatIsFaster) {
  StragglerWatch watch;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(watch.observe(Seconds{0.2, 1, 1, 1}), std::nullopt);
}

TEST(StragglerWatch, SaysNothingWhereNothingCanBeCompared) {
  StragglerWatch alone, idle;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(alone.observe(Seconds{1}), std::nullopt);
    EXPECT_EQ(alone.observe({}), std::nullopt);
    EXPECT_EQ(idle.observe(Seconds{0, 0, 1}), std::nullopt);  // the others have not computed at all
  }
}

TEST(StragglerWatch, PassesOverAWindowWithoutNumbers) {
  StragglerWatch watch;
  watch.observe(kRank3Slow), watch.observe(kRank3Slow);
  EXPECT_EQ(watch.observe(Seconds{1, std::numeric_limits<double>::quiet_NaN(), 1, 1}), std::nullopt);
  EXPECT_TRUE(watch.observe(kRank3Slow).has_value());
}

TEST(StragglerWatch, AnotherNumberOfRanksStartsAnew) {
  StragglerWatch watch;
  watch.observe(kRank3Slow), watch.observe(kRank3Slow);
  EXPECT_EQ(watch.observe(Seconds{1, 1, 1, 1.6, 1}), std::nullopt);
}

}  // namespace
}  // namespace paceline
