#include "paceline/kernels/progressive.h"

#include <gmock/gmock.h>

#include <vector>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

class ProgressiveTest : public ::testing::TestWithParam<size_t> {};

TEST_P(ProgressiveTest, EqualsItsReferenceBitForBit) {
  const size_t count = GetParam();
  const ProgressiveCoefficients c = {.rate = 0.3f, .momentum = 0.9f, .weight_decay = 5e-4f};
  std::vector<float> weights = random_numbers(1, count), momentum = random_numbers(2, count);
  std::vector<float> expected_weights = weights, expected_momentum = momentum;
  for (uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> gradient = random_numbers(3 + step, count), late = random_numbers(9 + step, count);
    progressive_update(weights.data(), gradient.data(), momentum.data(), count, c);
    merge_late(momentum.data(), late.data(), count, 0.07f);
    progressive_update_reference(expected_weights.data(), gradient.data(), expected_momentum.data(), count, c);
    merge_late_reference(expected_momentum.data(), late.data(), count, 0.07f);
  }
  EXPECT_EQ(weights, expected_weights);
  EXPECT_EQ(momentum, expected_momentum);

  std::vector<float> ahead(count), expected_ahead(count);
  look_ahead(ahead.data(), weights.data(), momentum.data(), count, 0.3f);
  look_ahead_reference(expected_ahead.data(), weights.data(), momentum.data(), count, 0.3f);
  EXPECT_EQ(ahead, expected_ahead);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ProgressiveTest, ::testing::Values(0, 1, 7, 31, 33, 1000, 100'003));

TEST(Progressive, OneStepIsTheFormula) {
  float weight = 2, gradient = 3, momentum = 5;
  progressive_update(&weight, &gradient, &momentum, 1, {.rate = 0.125f, .momentum = 0.5f, .weight_decay = 0.25f});
  EXPECT_EQ(weight, 2 - 0.125f * (3 + 0.5f + 5));
  EXPECT_EQ(momentum, 0.5f * (5 + 3 + 0.5f));
}

TEST(Progressive, LookAheadIsTheStepOfAGradientOfZero) {
  float weight = 2, gradient = 0, momentum = 5, ahead = 0;
  look_ahead(&ahead, &weight, &momentum, 1, 0.1f);
  progressive_update(&weight, &gradient, &momentum, 1, {.rate = 0.1f, .momentum = 0.5f, .weight_decay = 0});
  EXPECT_EQ(ahead, weight);
}

}  // namespace
}  // namespace paceline
