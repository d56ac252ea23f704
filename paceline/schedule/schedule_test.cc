#include "paceline/schedule/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "paceline/core/error.h"

namespace paceline {
namespace {

TEST(Schedule, LinearScalingFollowsTheBatch) {
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 256, 256), 0.1);
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 8192, 256), 3.2);  // Goyal: 8,192 images at 0.1 per 256
  EXPECT_DOUBLE_EQ(scaled_rate(0.1, 64, 256), 0.025);
  EXPECT_THROW(scaled_rate(0.1, 64, 0), InternalError);
}

TEST(Schedule, ConstantStays) {
  for (const double epoch : {-1.0, 0.0, 0.5, 1e9}) EXPECT_EQ(constant(0.3)(epoch), 0.3);
}

// Goyal et al., ResNet-50: 5 epochs from 0.1 to 3.2, then a tenth at 30, 60 and 80.
TEST(Schedule, GoyalWarmsUpAndSteps) {
  const Schedule rate = with_warmup(5, 0.1, step(3.2, {30, 60, 80}, 0.1));
  EXPECT_DOUBLE_EQ(rate(0), 0.1);
  EXPECT_DOUBLE_EQ(rate(1), 0.1 + 3.1 / 5);
  EXPECT_DOUBLE_EQ(rate(2.5), 1.65);
  EXPECT_DOUBLE_EQ(rate(5), 3.2);
  EXPECT_DOUBLE_EQ(rate(std::nextafter(30, 0)), 3.2);
  EXPECT_DOUBLE_EQ(rate(30), 0.32);
  EXPECT_DOUBLE_EQ(rate(60), 0.032);
  EXPECT_DOUBLE_EQ(rate(80), 0.0032);
  EXPECT_DOUBLE_EQ(rate(1000), 0.0032);
}

// Mikami B: 29(1 - e/90)^2 from epoch 5 to 30, 50(1 - e/90)^2 after, on the whole epoch and not on that after the
// warm-up.
TEST(Schedule, MikamiDecaysOnTheWholeEpoch) {
  const Schedule first = with_warmup(5, 0.2, polynomial(29, 90, 2));
  const Schedule second = polynomial(50, 90, 2);
  EXPECT_DOUBLE_EQ(first(0), 0.2);
  EXPECT_DOUBLE_EQ(first(5), 29 * std::pow(1 - 5 / 90.0, 2));
  EXPECT_DOUBLE_EQ(first(18), 29 * 0.64);
  EXPECT_DOUBLE_EQ(first(29), 29 * std::pow(1 - 29 / 90.0, 2));
  EXPECT_DOUBLE_EQ(second(45), 12.5);
  EXPECT_DOUBLE_EQ(second(81), 0.5);
  EXPECT_EQ(second(90), 0);
}

// Mikami A: 34 epochs from 1e-5, then the square to epoch 90; Lu: 0.9 per epoch; MLPerf at 8,192: 17, 42 epochs.
TEST(Schedule, OtherPublishedPoints) {
  const Schedule mikami = with_warmup(34, 1e-5, polynomial(34, 90, 2));
  EXPECT_DOUBLE_EQ(mikami(0), 1e-5);
  EXPECT_DOUBLE_EQ(mikami(62), 34 * std::pow(28 / 90.0, 2));
  EXPECT_EQ(mikami(90), 0);

  const Schedule lu = exponential(2.4, 0.9);
  EXPECT_DOUBLE_EQ(lu(0), 2.4);
  EXPECT_DOUBLE_EQ(lu(1), 2.16);
  EXPECT_DOUBLE_EQ(lu(10), 2.4 * std::pow(0.9, 10));

  EXPECT_DOUBLE_EQ(polynomial(17, 42, 2)(21), 4.25);
}

TEST(Schedule, WarmUpMeetsTheScheduleWithoutAJump) {
  const std::map<std::string, Schedule> schedules = {{"constant", constant(1)},
                                                     {"step", step(1, {7}, 0.1)},
                                                     {"exponential", exponential(1, 0.9)},
                                                     {"polynomial", polynomial(1, 10, 2)},
                                                     {"cosine", cosine(1, 10)}};
  for (const auto& [name, after] : schedules) {
    const Schedule rate = with_warmup(4, 0.05, after);
    EXPECT_EQ(rate(0), 0.05) << name;
    EXPECT_EQ(rate(4), after(4)) << name;
    EXPECT_NEAR(rate(std::nextafter(4, 0)), after(4), 1e-12) << name;
    EXPECT_DOUBLE_EQ(rate(2), (0.05 + after(4)) / 2) << name;
    EXPECT_EQ(rate(9), after(9)) << name;
  }
}

TEST(Schedule, NoWarmUpIsTheScheduleItself) {
  const Schedule rate = with_warmup(0, 123, cosine(2, 10));
  EXPECT_EQ(rate(-1), 2);
  EXPECT_EQ(rate(0), 2);
  EXPECT_DOUBLE_EQ(rate(5), 1);
}

TEST(Schedule, CosineFallsFromBaseToEnd) {
  const Schedule rate = cosine(1, 8, 0.5);
  EXPECT_EQ(rate(0), 1);
  EXPECT_DOUBLE_EQ(rate(2), 0.5 + 0.5 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(rate(4), 0.75);
  EXPECT_EQ(rate(8), 0.5);
}

TEST(Schedule, PolynomialFallsFromBaseToEnd) {
  const Schedule rate = polynomial(1, 8, 1, 0.5);
  EXPECT_EQ(rate(0), 1);
  EXPECT_DOUBLE_EQ(rate(4), 0.75);
  EXPECT_EQ(rate(8), 0.5);
}

TEST(Schedule, StepWithoutMilestonesIsConstant) { EXPECT_EQ(step(0.7, {}, 0.1)(50), 0.7); }

TEST(Schedule, OutsideItsEpochsItStaysAndIsNeverNegativeOrNaN) {
  for (const double end : {0.0, 0.25}) {
    for (const double power : {0.5, 1.0, 2.0, 3.7}) {
      const std::vector<Schedule> schedules = {polynomial(1, 3, power, end), cosine(1, 3, end),
                                               with_warmup(1, 0, polynomial(1, 3, power, end)),
                                               with_warmup(1, 0, cosine(1, 3, end))};
      for (const Schedule& rate : schedules) {
        EXPECT_EQ(rate(-1), rate(0));
        for (const double epoch : {3.0, std::nextafter(3, 4), 3.001, 4.0, 1e300}) EXPECT_EQ(rate(epoch), end);
        for (double epoch = 0; epoch < 4; epoch += 1 / 64.0) {
          EXPECT_GE(rate(epoch), 0);
          EXPECT_LE(rate(epoch), 1);
        }
      }
    }
  }
  EXPECT_EQ(exponential(1, 0.5)(-3), 1);
  EXPECT_EQ(exponential(1, 0.5)(1e300), 0);
  EXPECT_EQ(step(1, {1, 2}, 0.5)(-3), 1);
}

TEST(Schedule, ChecksItsArguments) {
  EXPECT_THROW(polynomial(1, 0, 2), InternalError);
  EXPECT_THROW(polynomial(1, 1, 0), InternalError);
  EXPECT_THROW(cosine(1, 0), InternalError);
  EXPECT_THROW(step(1, {2, 1}, 0.1), InternalError);
  EXPECT_THROW(with_warmup(-1, 0, constant(1)), InternalError);
}

}  // namespace
}  // namespace paceline
