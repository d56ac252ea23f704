#include "paceline/kernels/running_mean.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

class RunningMeanTest : public ::testing::TestWithParam<size_t> {};

TEST_P(RunningMeanTest, EqualsItsReferenceBitForBit) {
  const size_t count = GetParam();
  std::vector<float> mean = random_numbers(1, count), with_noise = mean, expected = mean;
  for (uint64_t push = 0; push < 3; ++push) {
    const std::vector<float> gradient = random_numbers(2 + push, count);
    const float share = 1.0f / static_cast<float>(push + 2);
    running_mean_add(mean.data(), gradient.data(), count, share);
    const MeanNoise noise = running_mean_add_noise(with_noise.data(), gradient.data(), count, share);
    const MeanNoise truth = running_mean_add_noise_reference(expected.data(), gradient.data(), count, share);
    EXPECT_NEAR(noise.mean_norm2, truth.mean_norm2, 1e-12 * truth.mean_norm2);
    EXPECT_NEAR(noise.spread, truth.spread, 1e-12 * std::abs(truth.spread));
  }
  EXPECT_EQ(mean, expected);
  EXPECT_EQ(with_noise, expected);
  running_mean_add(mean.data(), with_noise.data(), count, 0.3f);
  running_mean_add_reference(expected.data(), with_noise.data(), count, 0.3f);
  EXPECT_EQ(mean, expected);
}

TEST_P(RunningMeanTest, AddsALateGradientAsItsReferenceDoes) {
  const size_t count = GetParam();
  std::vector<float> mean = random_numbers(1, count), momentum = random_numbers(2, count);
  std::vector<float> expected_mean = mean, expected_momentum = momentum;
  const std::vector<float> gradient = random_numbers(3, count);
  running_mean_add_late(mean.data(), momentum.data(), gradient.data(), count, 0.2f, 0.81f);
  running_mean_add_late_reference(expected_mean.data(), expected_momentum.data(), gradient.data(), count, 0.2f, 0.81f);
  EXPECT_EQ(mean, expected_mean);
  EXPECT_EQ(momentum, expected_momentum);
}

INSTANTIATE_TEST_SUITE_P(Sizes, RunningMeanTest, ::testing::Values(0, 1, 7, 15, 16, 33, 1000, 100'003));

TEST(RunningMean, IsTheWeighedMeanAndItsSpread) {
  const std::vector<std::vector<float>> gradients = {{1, 2, 3}, {4, -5, 6}, {0.5f, 0, 9}};
  const std::vector<double> samples = {8, 4, 20};
  std::vector<float> mean = gradients[0];
  double weight = samples[0], spread = 0;
  MeanNoise noise;
  for (size_t i = 1; i < gradients.size(); ++i) {
    weight += samples[i];
    noise = running_mean_add_noise(mean.data(), gradients[i].data(), 3, static_cast<float>(samples[i] / weight));
    spread += samples[i] * noise.spread;
  }
  double norm = 0, distances = 0;
  for (size_t e = 0; e < 3; ++e) {
    double truth = 0;
    for (size_t i = 0; i < 3; ++i) truth += samples[i] * gradients[i][e] / weight;
    EXPECT_NEAR(mean[e], truth, 1e-5);
    norm += truth * truth;
    for (size_t i = 0; i < 3; ++i) distances += samples[i] * std::pow(gradients[i][e] - truth, 2);
  }
  EXPECT_NEAR(noise.mean_norm2, norm, 1e-4 * norm);
  EXPECT_NEAR(spread, distances, 1e-4 * distances);
}

}  // namespace
}  // namespace paceline
