#include "paceline/metrics/meters.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace paceline {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(WeightedMean, WeighsEachValue) {
  WeightedMean mean;
  mean.add(1, 64);
  mean.add(4, 32);
  EXPECT_DOUBLE_EQ(mean.mean(), 2);
  EXPECT_DOUBLE_EQ(mean.weight(), 96);
}

TEST(WeightedMean, OfNothingIsNaN) {
  WeightedMean mean;
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.add(5, 0);  // a batch without samples
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.add(5, 1);
  EXPECT_EQ(mean.mean(), 5);
  mean.reset();
  EXPECT_TRUE(std::isnan(mean.mean()));
  EXPECT_EQ(mean.weight(), 0);
}

TEST(RateMeter, IsExactForAConstantRateHoweverIrregularTheCalls) {
  RateMeter meter(5 * kSecond);
  EXPECT_EQ(meter.per_second(), 0);
  int64_t now = 5 * kSecond;
  for (const int64_t passed_ms : {1, 1000, 3, 20'000, 7}) {
    now += passed_ms * 1'000'000;
    meter.add(0.4 * static_cast<double>(passed_ms), now);  // 400 a second
    EXPECT_NEAR(meter.per_second(), 400, 1e-6);
  }
}

TEST(RateMeter, FollowsAChangeWithinAFewSeconds) {
  RateMeter meter(0, 3);
  int64_t now = 0;
  for (int i = 0; i < 600; ++i) meter.add(10, now += kSecond / 10);  // a minute at 100 a second
  for (int i = 0; i < 30; ++i) meter.add(20, now += kSecond / 10);   // three seconds at 200
  EXPECT_NEAR(meter.per_second(), 200 - 100 * std::exp(-1.0), 0.01);
}

TEST(RateMeter, APauseThatIsSkippedDoesNotCount) {
  RateMeter meter(0);
  meter.add(100, kSecond);
  meter.skip_to(61 * kSecond);
  meter.add(100, 62 * kSecond);
  EXPECT_NEAR(meter.per_second(), 100, 1e-9);
}

TEST(RateMeter, AClockThatStandsStillGivesNoInfinity) {
  RateMeter meter(0);
  meter.add(10, 0);
  EXPECT_EQ(meter.per_second(), 0);
  meter.add(0, kSecond);
  EXPECT_TRUE(std::isfinite(meter.per_second()));
  EXPECT_GT(meter.per_second(), 5);
}

TEST(PeakRss, GrowsWithMemoryThatIsTouched) {
  const int64_t before = peak_rss_bytes();
  EXPECT_GT(before, 100'000);
  const std::vector<char> touched(200 << 20, 1);
  EXPECT_GT(peak_rss_bytes(), (150 << 20) + touched[0]);
  EXPECT_GE(peak_rss_bytes(), before);
}

// The program runs itself again, in a process that has touched much more before exec(), as an interpreter does that
// starts a rank.
TEST(PeakRss, IsNotThatOfTheProgramBefore) {
  if (std::getenv("PACELINE_TEST_PRINTS_PEAK") != nullptr) {
    std::printf("peak %lld\n", static_cast<long long>(peak_rss_bytes()));
    return;
  }
  const std::vector<char> touched(300 << 20, 1);
  const std::string command = fmt::format(
      "exec env PACELINE_TEST_PRINTS_PEAK=1 /proc/{}/exe --gtest_filter=PeakRss.IsNotThatOfTheProgramBefore",
      ::getpid());
  FILE* const output = ::popen(command.c_str(), "r");
  ASSERT_NE(output, nullptr);
  long long peak = 0;
  for (char line[256]; std::fgets(line, sizeof line, output) != nullptr;) std::sscanf(line, "peak %lld", &peak);
  EXPECT_EQ(::pclose(output), 0);
  EXPECT_GT(peak, 100'000 * touched[0]);
  EXPECT_LT(peak, 200 << 20);
}

}  // namespace
}  // namespace paceline
