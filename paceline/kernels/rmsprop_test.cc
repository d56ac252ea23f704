#include "paceline/kernels/rmsprop.h"

#include <gmock/gmock.h>

#include <cmath>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

constexpr RmspropCoefficients kCoefficients = {
    .rate = 0.01, .alpha = 0.99, .epsilon = 1e-8, .momentum = 0.9, .weight_decay = 5e-4, .gradient_scale = 0.7};

class RmspropUpdateTest : public ::testing::TestWithParam<size_t> {};

TEST_P(RmspropUpdateTest, EqualsItsReferenceBitForBit) {
  const size_t count = GetParam();
  std::vector<float> weights = random_numbers(1, count), second(count), momentum = random_numbers(2, count);
  std::vector<float> expected_weights = weights, expected_second = second, expected_momentum = momentum;
  for (uint64_t step = 0; step < 20; ++step) {
    const std::vector<float> gradient = random_numbers(3 + step, count);
    rmsprop_update(weights.data(), gradient.data(), second.data(), momentum.data(), count, kCoefficients);
    rmsprop_update_reference(expected_weights.data(), gradient.data(), expected_second.data(), expected_momentum.data(),
                             count, kCoefficients);
  }
  EXPECT_EQ(weights, expected_weights);
  EXPECT_EQ(second, expected_second);
  EXPECT_EQ(momentum, expected_momentum);
}

INSTANTIATE_TEST_SUITE_P(Sizes, RmspropUpdateTest, ::testing::Values(0, 1, 7, 31, 33, 1003));

TEST(RmspropUpdate, OneStepIsTheFormula) {
  float weight = 2, gradient = 3, second = 4, momentum = 5;
  rmsprop_update(
      &weight, &gradient, &second, &momentum, 1,
      {.rate = 0.1, .alpha = 0.75, .epsilon = 0.5, .momentum = 0.5, .weight_decay = 0.5, .gradient_scale = 2});
  EXPECT_FLOAT_EQ(second, 0.75f * 4 + 0.25f * 49);
  EXPECT_FLOAT_EQ(momentum, 0.5f * 5 + 7 / (std::sqrt(15.25f) + 0.5f));
  EXPECT_FLOAT_EQ(weight, 2 - 0.1f * momentum);
}

TEST(RmspropUpdate, AllZeroGradientsMoveNothing) {
  float weight = 2, gradient = 0, second = 0, momentum = 0;
  RmspropCoefficients c = kCoefficients;
  c.weight_decay = 0;
  rmsprop_update(&weight, &gradient, &second, &momentum, 1, c);
  EXPECT_EQ(weight, 2);
}

}  // namespace
}  // namespace paceline
