#include "paceline/kernels/adabound.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "paceline/kernels/adabound_bounds.h"
#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr AdaboundCoefficients kCoefficients = {.rate = 0.01,
                                                .lower = 0.008,
                                                .upper = 0.02,
                                                .beta1 = 0.9,
                                                .beta2 = 0.999,
                                                .epsilon = 1e-8,
                                                .weight_decay = 5e-4,
                                                .correction1 = 0.75,
                                                .correction2 = 0.5,
                                                .gradient_scale = 0.7};

class AdaboundUpdateTest : public ::testing::TestWithParam<size_t> {};

TEST_P(AdaboundUpdateTest, EqualsItsReferenceBitForBit) {
  const size_t count = GetParam();
  std::vector<float> weights = random_numbers(1, count), first(count), second = random_squares(2, count);
  std::vector<float> expected_weights = weights, expected_first = first, expected_second = second;
  for (uint64_t step = 0; step < 20; ++step) {
    const std::vector<float> gradient = random_numbers(3 + step, count);
    adabound_update(weights.data(), gradient.data(), first.data(), second.data(), count, kCoefficients);
    adabound_update_reference(expected_weights.data(), gradient.data(), expected_first.data(), expected_second.data(),
                              count, kCoefficients);
  }
  EXPECT_EQ(weights, expected_weights);
  EXPECT_EQ(first, expected_first);
  EXPECT_EQ(second, expected_second);
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdaboundUpdateTest, ::testing::Values(0, 1, 7, 31, 33, 1003));

// The step of one weight at rest, by the rate that its element gets: gradient 1, v = 1 after the step.
double step_with(double rate, double lower, double upper) {
  float weight = 0, gradient = 1, first = 1, second = 1;
  adabound_update(&weight, &gradient, &first, &second, 1,
                  {.rate = rate,
                   .lower = lower,
                   .upper = upper,
                   .beta1 = 0.9,
                   .beta2 = 0.999,
                   .epsilon = 1e-8,
                   .weight_decay = 0,
                   .correction1 = 1,
                   .correction2 = 1,
                   .gradient_scale = 1});
  return -weight;
}

TEST(AdaboundUpdate, KeepsTheRateBetweenItsBounds) {
  EXPECT_NEAR(step_with(0.1, 0, kInfinity), 0.1, 1e-7);
  EXPECT_NEAR(step_with(0.1, 0.2, kInfinity), 0.2, 1e-7);
  EXPECT_NEAR(step_with(0.1, 0, 0.05), 0.05, 1e-7);
  EXPECT_NEAR(step_with(0.1, 0.3, 0.3), 0.3, 1e-7);
}

TEST(AdaboundUpdate, DividesByTheRoot) {
  float weight = 0, gradient = 2, first = 2, second = 4;
  AdaboundCoefficients c = kCoefficients;
  c.lower = 0, c.upper = kInfinity, c.weight_decay = 0, c.gradient_scale = 1;
  adabound_update(&weight, &gradient, &first, &second, 1, c);
  EXPECT_NEAR(weight, -0.01 / std::sqrt(4 / 0.5) * 2 / 0.75, 1e-7);
}

TEST(AdaboundUpdate, AllZeroGradientsMoveNothingEvenWithoutUpperBound) {
  float weight = 2, gradient = 0, first = 0, second = 0;
  AdaboundCoefficients c = kCoefficients;
  c.weight_decay = 0, c.lower = 0, c.upper = kInfinity;
  adabound_update(&weight, &gradient, &first, &second, 1, c);
  EXPECT_EQ(weight, 2);
  gradient = 1e-30f;  // its square is 0 in single precision
  adabound_update(&weight, &gradient, &first, &second, 1, c);
  EXPECT_NEAR(weight, 2, 1e-6);
}

TEST(AdaboundBounds, AreLuos) {
  const RateBounds first = adabound_bounds(0.1, 1e-3, 1), later = adabound_bounds(0.1, 1e-3, 1e9);
  EXPECT_DOUBLE_EQ(first.lower, 0.1 * (1 - 1 / 1.001));
  EXPECT_DOUBLE_EQ(first.upper, 0.1 * 1001);
  EXPECT_NEAR(later.lower, 0.1, 1e-6);
  EXPECT_NEAR(later.upper, 0.1, 1e-6);
}

TEST(WarmupBounds, CloseInOnTheScaledRate) {
  const RateBounds begin = warmup_bounds(3.2, 0.999, 0, 10), half = warmup_bounds(3.2, 0.999, 5, 10);
  EXPECT_EQ(begin.lower, 0);
  EXPECT_EQ(begin.upper, kInfinity);
  EXPECT_DOUBLE_EQ(half.lower, 1.6);
  EXPECT_NEAR(half.upper, 3.2 + 1000.0 / 5 - 1000.0 / 10, 1e-9);
  for (const double epoch : {10.0, 11.0}) {
    EXPECT_EQ(warmup_bounds(3.2, 0.999, epoch, 10).lower, 3.2);
    EXPECT_EQ(warmup_bounds(3.2, 0.999, epoch, 10).upper, 3.2);
  }
  const RateBounds last = warmup_bounds(3.2, 0.999, 10 - 1e-9, 10);  // no jump at the end
  EXPECT_NEAR(last.lower, 3.2, 1e-6);
  EXPECT_NEAR(last.upper, 3.2, 1e-6);
}

}  // namespace
}  // namespace paceline
