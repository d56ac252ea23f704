#include "paceline/optim/barzilai_borwein.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using Outcome = BarzilaiBorweinRate::Outcome;

// A move of length 2 along which the gradient grew by 4 per unit: curvature 4.
constexpr SecantMeasurement kCurvature4 = {.move_dot_change = 16, .move_squared = 4, .gradient_squared = 9};

TEST(BarzilaiBorweinRate, IsTheInverseOfTheCurvatureOnTheWholeData) {
  BarzilaiBorweinRate rate(published_barzilai_borwein(0.01, 10));
  EXPECT_EQ(rate.update(kCurvature4), Outcome::followed);
  EXPECT_DOUBLE_EQ(rate.rate(), 0.25);
}

TEST(BarzilaiBorweinRate, FollowsByTheShareOfTheBatchAndLessForNoise) {
  BarzilaiBorweinRate rate(published_barzilai_borwein(0.01, 10));
  SecantMeasurement measured = kCurvature4;
  measured.batch_share = 0.125, measured.noise = 9, measured.gradients = 4;
  rate.update(measured);
  EXPECT_DOUBLE_EQ(rate.rate(), 0.875 * 0.01 + 0.125 * 0.25 * (1 - 9.0 / (4 * 9)));
}

TEST(BarzilaiBorweinRate, IsNeverNegativeHoweverMuchNoise) {
  BarzilaiBorweinRate rate(published_barzilai_borwein(0.01, 10));
  SecantMeasurement measured = kCurvature4;
  measured.batch_share = 0.5, measured.noise = 1e6;
  rate.update(measured);
  EXPECT_DOUBLE_EQ(rate.rate(), 0.5 * 0.01);
  measured.gradient_squared = 0;
  rate.update(measured);
  EXPECT_DOUBLE_EQ(rate.rate(), 0.25 * 0.01);
}

TEST(BarzilaiBorweinRate, TheUsefulSettingGoesHalfWayAndSlowly) {
  const BarzilaiBorweinOptions options = useful_barzilai_borwein(0.01, 10);
  EXPECT_EQ(options.secant, Secant::cheap);
  BarzilaiBorweinRate rate(options);
  SecantMeasurement measured = kCurvature4;
  measured.batch_share = 0.5, measured.noise = 1e6;  // plays no part
  rate.update(measured);
  EXPECT_DOUBLE_EQ(rate.rate(), 0.95 * 0.01 + 0.05 * 0.125);
}

// Three quarters of a step of rate 0.5 were downhill for another batch.
TEST(BarzilaiBorweinRate, TheSteadySettingFollowsWhatAnotherBatchMakesOfTheStep) {
  BarzilaiBorweinRate rate(steady_barzilai_borwein(0.01, 10));
  SecantMeasurement measured = kCurvature4;
  measured.move_rate = 0.5, measured.move_dot_previous = -0.75 * 4 / 0.5;
  EXPECT_EQ(rate.update(measured), Outcome::followed);
  EXPECT_DOUBLE_EQ(rate.rate(), 1.6 * 0.75 / 4);
  measured.move_dot_previous *= -1;  // uphill, and as often as downhill so far
  EXPECT_EQ(rate.update(measured), Outcome::not_downhill);
  EXPECT_DOUBLE_EQ(rate.rate(), 1.6 * 0.75 / 4);
  measured.move_dot_previous *= -2,
      measured.move_dot_change = -8;  // a step down along which it is curved the other way
  EXPECT_EQ(rate.update(measured), Outcome::followed);
  EXPECT_DOUBLE_EQ(rate.rate(), 1.6 * (2 * 0.75 / 3) / ((4 + 4 - 2) / 3.0));
  BarzilaiBorweinOptions cheap = steady_barzilai_borwein(0.01, 10);
  cheap.secant = Secant::cheap;
  EXPECT_THROW(BarzilaiBorweinRate{cheap}, InternalError);
}

TEST(BarzilaiBorweinRate, StaysWithinItsLimits) {
  BarzilaiBorweinRate fast(published_barzilai_borwein(0.01, 0.1));
  fast.update(kCurvature4);
  EXPECT_EQ(fast.rate(), 0.1);
  BarzilaiBorweinRate slow(useful_barzilai_borwein(100, 1000));
  for (int i = 0; i < 100; ++i) slow.update(kCurvature4);
  EXPECT_EQ(slow.rate(), 20);
  EXPECT_THROW(BarzilaiBorweinRate(published_barzilai_borwein(0.1, 0)), InternalError);
}

TEST(BarzilaiBorweinRate, StaysWhenThereIsNothingToLearn) {
  BarzilaiBorweinRate rate(published_barzilai_borwein(0.01, 10));
  EXPECT_EQ(rate.update({.move_dot_change = -1, .move_squared = 4, .gradient_squared = 9}), Outcome::no_curvature);
  EXPECT_EQ(rate.update({.move_dot_change = 0, .move_squared = 4, .gradient_squared = 9}), Outcome::no_curvature);
  EXPECT_EQ(rate.update({.move_dot_change = std::nan(""), .move_squared = 4}), Outcome::no_curvature);
  EXPECT_EQ(rate.update({.move_dot_change = 1e-30, .move_squared = 1e-30, .gradient_squared = 9}), Outcome::tiny_move);
  SecantMeasurement overflow = kCurvature4;
  overflow.overflow = true;
  EXPECT_EQ(rate.update(overflow), Outcome::overflow);
  EXPECT_EQ(rate.rate(), 0.01);
}

TEST(PreviousGradientScale, IsOneForEqualBatches) {
  EXPECT_EQ(previous_gradient_scale(64, 64), 1);
  EXPECT_EQ(previous_gradient_scale(64, 16), 2);
}

TEST(Armijo, HoldsWhenTheLossFallsByATenthOfWhatTheSlopePromises) {
  EXPECT_TRUE(armijo_holds(10, 9, 0.5, 20));
  EXPECT_FALSE(armijo_holds(10, 9.001, 0.5, 20));
  EXPECT_FALSE(armijo_holds(10, std::nan(""), 0.5, 20));
  EXPECT_FALSE(armijo_holds(10, -std::numeric_limits<double>::infinity(), 0.5, 20));
}

// Late in a run both losses are all rounding, and halving again and again would end it.
TEST(Armijo, DoesNotJudgeByRounding) {
  EXPECT_TRUE(armijo_holds(7e-9, 8e-8, 0.1, 1e-12));
  EXPECT_TRUE(armijo_holds(2, 2.0000001, 0.1, 1e-12));
  EXPECT_FALSE(armijo_holds(7e-9, 1e-5, 0.1, 1e-12));
  EXPECT_FALSE(armijo_holds(2, 2.00001, 0.1, 1e-12));
}

TEST(Armijo, HalvesUntilItHoldsAndNotForEver) {
  const auto parabola = [](double rate) { return (1 - rate) * (1 - rate) / 2; };  // from w = 1, gradient 1
  EXPECT_EQ(armijo_halvings(1, 0.5, 1, parabola), 0);
  EXPECT_EQ(armijo_halvings(10, 0.5, 1, parabola), 3);
  EXPECT_EQ(armijo_halvings(10, 0.5, 1, [](double) { return 7.0; }), kMostHalvings);
}

}  // namespace
}  // namespace paceline
