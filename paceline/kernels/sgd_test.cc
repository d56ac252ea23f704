#include "paceline/kernels/sgd.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "paceline/core/random.h"

namespace paceline {
namespace {

std::vector<float> numbers(uint64_t seed, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = RandomKey(seed).normal_pair(i)[0];
  return values;
}

class SgdUpdateTest : public ::testing::TestWithParam<std::tuple<size_t, bool>> {};

TEST_P(SgdUpdateTest, EqualsItsReferenceBitForBit) {
  const auto [count, nesterov] = GetParam();
  const SgdCoefficients c = {
      .rate = 0.3f, .momentum = 0.9f, .weight_decay = 5e-4f, .gradient_scale = 0.7f, .nesterov = nesterov};
  std::vector<float> weights = numbers(1, count), momentum = numbers(2, count);
  std::vector<float> expected_weights = weights, expected_momentum = momentum;
  for (uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> gradient = numbers(3 + step, count);
    sgd_update(weights.data(), gradient.data(), momentum.data(), count, c);
    sgd_update_reference(expected_weights.data(), gradient.data(), expected_momentum.data(), count, c);
  }
  EXPECT_EQ(weights, expected_weights);
  EXPECT_EQ(momentum, expected_momentum);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SgdUpdateTest,
                         ::testing::Combine(::testing::Values(0, 1, 7, 31, 33, 1000, 100'003), ::testing::Bool()));

TEST(SgdUpdate, OneStepIsTheFormula) {
  float weight = 2, gradient = 3, momentum = 5;
  sgd_update(&weight, &gradient, &momentum, 1,
             {.rate = 0.1f, .momentum = 0.5f, .weight_decay = 0.25f, .gradient_scale = 2, .nesterov = false});
  EXPECT_FLOAT_EQ(momentum, 0.5f * 5 + (2 * 3 + 0.25f * 2));  // 9
  EXPECT_FLOAT_EQ(weight, 2 - 0.1f * 9);
}

TEST(SumOfSquares, CountsEveryElementAtEverySize) {
  for (const size_t count : {0, 1, 15, 16, 17, 33, 1000}) {
    const std::vector<float> values(count, 3.0f);
    EXPECT_EQ(sum_of_squares(values.data(), count), 9.0 * static_cast<double>(count)) << count;
  }
}

TEST(SumOfSquares, DoesNotOverflowInSinglePrecision) {
  const std::vector<float> values(4, 1e30f);
  EXPECT_NEAR(sum_of_squares(values.data(), values.size()) / 4e60, 1, 1e-6);
}

}  // namespace
}  // namespace paceline
