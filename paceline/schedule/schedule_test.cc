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

struct PublishedPoint {
  double epoch, rate;
};

void expect_points(const Schedule& rate, const std::vector<PublishedPoint>& points) {
  for (const auto& [epoch, expected] : points) EXPECT_DOUBLE_EQ(rate(epoch), expected) << "epoch " << epoch;
}

// Mikami B: 0.2 + (29 - 0.2)e/5, then 29(1 - e/90)^2, from epoch 30 on 50(1 - e/90)^2. The decay counts the whole
// epoch; the rate jumps down where the warm-up ends, and up at epoch 30.
TEST(Schedule, MikamiBJumpsTwice) {
  const Schedule rate = with_warmup(5, 0.2, 29, in_phases({30}, {polynomial(29, 90, 2), polynomial(50, 90, 2)}));
  const double before_5 = std::nextafter(5, 0), before_30 = std::nextafter(30, 0);
  expect_points(rate, {{0, 0.2},
                       {2.5, 14.6},
                       {before_5, 29},
                       {5, 29 * (85 / 90.0) * (85 / 90.0)},
                       {18, 29 * 0.64},
                       {before_30, 29 * (60 / 90.0) * (60 / 90.0)},
                       {30, 50 * (60 / 90.0) * (60 / 90.0)},
                       {45, 12.5},
                       {81, 0.5},
                       {90, 0}});
}

// Mikami A: 34 epochs from 1e-5 to 34.0, then the square from there to epoch 90; and TensorFlow's 12 epochs.
TEST(Schedule, MikamiADecaysFromTheEndOfTheWarmUp) {
  const auto rate_after = [](double warmup) {
    return with_warmup(warmup, 1e-5, starting_at(warmup, polynomial(34, 90 - warmup, 2)));
  };
  expect_points(rate_after(34), {{0, 1e-5}, {17, 17.000005}, {34, 34}, {62, 34 / 4.0}, {76, 34 / 16.0}, {90, 0}});
  expect_points(rate_after(12), {{0, 1e-5}, {6, 17.000005}, {12, 34}, {51, 34 / 4.0}, {70.5, 34 / 16.0}, {90, 0}});
}

// Lu: lr·N·0.9^(epoch - T) with lr = 0.1, N = 24, T = 10.
TEST(Schedule, LuDecaysExponentiallyFromTheEndOfTheWarmUp) {
  const Schedule rate = with_warmup(10, 0.1, starting_at(10, exponential(2.4, 0.9)));
  expect_points(rate, {{0, 0.1}, {5, 1.25}, {10, 2.4}, {11, 2.16}, {20, 2.4 * std::pow(0.9, 10)}});
}

// MLPerf's four rows: rate, warm-up and length in epochs; halfway through the decay a quarter is left.
TEST(Schedule, MlperfRows) {
  struct Row {
    double rate, warmup, epochs;
  };
  for (const auto& [base, warmup, epochs] : {Row{11, 2, 35}, Row{17, 5, 42}, Row{28, 16, 60}, Row{23, 32, 77}}) {
    const Schedule rate = with_warmup(warmup, 0, starting_at(warmup, polynomial(base, epochs - warmup, 2)));
    expect_points(rate, {{0, 0},
                         {warmup / 2, base / 2},
                         {warmup, base},
                         {(warmup + epochs) / 2, base / 4},
                         {epochs, 0},
                         {epochs + 1, 0}});
  }
}

TEST(Schedule, StartingLaterMovesTheWholeCurve) {
  const Schedule rate = starting_at(4, cosine(1, 8));
  expect_points(rate, {{-1, 1}, {0, 1}, {4, 1}, {8, 0.5}, {12, 0}, {20, 0}});
}

TEST(Schedule, PhasesFollowEachOtherAtTheirMilestones) {
  const Schedule rate = in_phases({1, 2}, {constant(3), constant(5), exponential(1, 0.5)});
  expect_points(rate, {{-1, 3}, {0, 3}, {std::nextafter(1, 0), 3}, {1, 5}, {2, 0.25}, {3, 0.125}});
  expect_points(in_phases({}, {constant(7)}), {{0, 7}, {9, 7}});
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
  EXPECT_THROW(with_warmup(-1, 0, 1, constant(1)), InternalError);
  EXPECT_THROW(in_phases({1}, {constant(1)}), InternalError);
  EXPECT_THROW(in_phases({2, 1}, {constant(1), constant(1), constant(1)}), InternalError);
}

}  // namespace
}  // namespace paceline
