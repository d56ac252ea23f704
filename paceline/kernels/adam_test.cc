#include "paceline/kernels/adam.h"

#include <gmock/gmock.h>

#include <cmath>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

AdamCoefficients coefficients(int step, bool decoupled) {
  return {.rate = 0.01,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .epsilon = 1e-8,
          .weight_decay = 0.02,
          .decoupled = decoupled,
          .correction1 = 1 - std::pow(0.9, step),
          .correction2 = 1 - std::pow(0.999, step),
          .gradient_scale = 0.7};
}

class AdamUpdateTest : public ::testing::TestWithParam<std::tuple<size_t, bool>> {};

TEST_P(AdamUpdateTest, EqualsItsReferenceBitForBit) {
  const auto [count, decoupled] = GetParam();
  std::vector<float> weights = random_numbers(1, count), first(count), second(count);
  std::vector<float> expected_weights = weights, expected_first = first, expected_second = second;
  for (int step = 1; step <= 20; ++step) {
    const std::vector<float> gradient = random_numbers(static_cast<uint64_t>(3 + step), count);
    const AdamCoefficients c = coefficients(step, decoupled);
    adam_update(weights.data(), gradient.data(), first.data(), second.data(), count, c);
    adam_update_reference(expected_weights.data(), gradient.data(), expected_first.data(), expected_second.data(),
                          count, c);
  }
  EXPECT_EQ(weights, expected_weights);
  EXPECT_EQ(first, expected_first);
  EXPECT_EQ(second, expected_second);
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdamUpdateTest,
                         ::testing::Combine(::testing::Values(0, 1, 7, 31, 33, 1003), ::testing::Bool()));

TEST(AdamUpdate, FirstStepIsTheRateAgainstTheSignOfTheGradient) {
  float weight = 2, gradient = 1e-3f, first = 0, second = 0;
  AdamCoefficients c = coefficients(1, false);
  c.weight_decay = 0;
  adam_update(&weight, &gradient, &first, &second, 1, c);
  EXPECT_NEAR(weight, 2 - 0.01, 1e-6);
}

TEST(AdamUpdate, DecoupledDecayIsNotDividedByTheRoot) {
  float weight = 2, gradient = 0, first = 0, second = 0;
  adam_update(&weight, &gradient, &first, &second, 1, coefficients(1, true));
  EXPECT_FLOAT_EQ(weight, 2 - 0.01f * 0.02f * 2);
  weight = 2;
  adam_update(&weight, &gradient, &first, &second, 1, coefficients(1, false));
  EXPECT_NEAR(weight, 2 - 0.01, 1e-6);
}

TEST(AdamUpdate, AllZeroGradientsMoveNothing) {
  float weight = 2, gradient = 0, first = 0, second = 0;
  AdamCoefficients c = coefficients(1, false);
  c.weight_decay = 0;
  adam_update(&weight, &gradient, &first, &second, 1, c);
  EXPECT_EQ(weight, 2);
}

}  // namespace
}  // namespace paceline
