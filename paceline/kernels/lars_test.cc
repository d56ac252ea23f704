#include "paceline/kernels/lars.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

class LarsUpdateTest : public ::testing::TestWithParam<size_t> {};

TEST_P(LarsUpdateTest, EqualsItsReferenceBitForBit) {
  const size_t count = GetParam();
  const LarsCoefficients c = {.local_rate = 0.3f, .momentum = 0.9f, .weight_decay = 5e-4f, .gradient_scale = 0.7f};
  std::vector<float> weights = random_numbers(1, count), momentum = random_numbers(2, count);
  std::vector<float> expected_weights = weights, expected_momentum = momentum;
  for (uint64_t step = 0; step < 5; ++step) {
    const std::vector<float> gradient = random_numbers(3 + step, count);
    lars_update(weights.data(), gradient.data(), momentum.data(), count, c);
    lars_update_reference(expected_weights.data(), gradient.data(), expected_momentum.data(), count, c);
  }
  EXPECT_EQ(weights, expected_weights);
  EXPECT_EQ(momentum, expected_momentum);
}

TEST_P(LarsUpdateTest, NormsCountEveryElement) {
  const size_t count = GetParam();
  const std::vector<float> weights = random_numbers(1, count), gradient = random_numbers(2, count);
  const SquaredNorms found = squared_norms(weights.data(), gradient.data(), count);
  const SquaredNorms expected = squared_norms_reference(weights.data(), gradient.data(), count);
  EXPECT_NEAR(found.weights, expected.weights, 1e-12 * expected.weights);
  EXPECT_NEAR(found.gradient, expected.gradient, 1e-12 * expected.gradient);
}

INSTANTIATE_TEST_SUITE_P(Sizes, LarsUpdateTest, ::testing::Values(0, 1, 7, 15, 16, 31, 33, 1000, 10'003));

TEST(LarsUpdate, OneStepIsTheFormula) {
  float weight = 2, gradient = 3, momentum = 5;
  lars_update(&weight, &gradient, &momentum, 1,
              {.local_rate = 0.125f, .momentum = 0.5f, .weight_decay = 0.25f, .gradient_scale = 2});
  EXPECT_EQ(momentum, 0.5f * 5 + 0.125f * (2 * 3 + 0.25f * 2));
  EXPECT_EQ(weight, 2 - momentum);
}

TEST(LarsUpdate, HasTheSameBitsHoweverTheRunIsCut) {
  constexpr size_t kCount = 1000;
  const LarsCoefficients c = {.local_rate = 0.3f, .momentum = 0.9f, .weight_decay = 5e-4f, .gradient_scale = 0.7f};
  const std::vector<float> gradient = random_numbers(3, kCount);
  std::vector<float> whole = random_numbers(1, kCount), whole_momentum = random_numbers(2, kCount);
  std::vector<float> cut = whole, cut_momentum = whole_momentum;
  lars_update(whole.data(), gradient.data(), whole_momentum.data(), kCount, c);
  for (size_t begin = 0; begin < kCount;) {
    const size_t count = std::min<size_t>(1 + begin % 37, kCount - begin);
    lars_update(cut.data() + begin, gradient.data() + begin, cut_momentum.data() + begin, count, c);
    begin += count;
  }
  EXPECT_EQ(cut, whole);
  EXPECT_EQ(cut_momentum, whole_momentum);
}

TEST(SquaredNorms, DoNotOverflowInSinglePrecision) {
  const std::vector<float> weights(40, 1e30f), gradient(40, 1e-30f);
  const SquaredNorms found = squared_norms(weights.data(), gradient.data(), weights.size());
  EXPECT_NEAR(found.weights / 40e60, 1, 1e-6);
  EXPECT_NEAR(found.gradient / 40e-60, 1, 1e-6);
}

TEST(LarsRate, IsTheFormula) {
  EXPECT_DOUBLE_EQ(lars_rate(10, 0.001, 0, 1e-4, 3, 0.5), 10 * 0.001 * 3 / (0.5 + 1e-4 * 3));
  EXPECT_DOUBLE_EQ(lars_rate(10, 0.01, 1e-6, 0, 3, 0.5), 10 * 0.01 * 3 / (0.5 + 1e-6));
  EXPECT_DOUBLE_EQ(lars_rate(10, 0.001, 0, 1e-4, 3, 0), 10 * 0.001 / 1e-4);  // decay alone is left
}

TEST(LarsRate, IsTheRateWhereThereIsNothingToAdaptTo) {
  EXPECT_EQ(lars_rate(10, 0.001, 0, 1e-4, 0, 0.5), 10);      // weights start at 0: they must be able to leave it
  EXPECT_EQ(lars_rate(10, 0.001, 1e-6, 1e-4, 1e-7, 1), 10);  // below epsilon
  EXPECT_EQ(lars_rate(10, 0.001, 0, 0, 3, 0), 10);           // neither gradient nor decay
  EXPECT_EQ(lars_rate(10, 0.001, 0, 0, 0, 0), 10);
}

TEST(LarsRate, StaysFiniteInSinglePrecision) {
  const double rate = lars_rate(10, 0.001, 0, 0, 1e10, std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::isfinite(static_cast<float>(rate)));
  EXPECT_GT(rate, 1e38);
}

}  // namespace
}  // namespace paceline
