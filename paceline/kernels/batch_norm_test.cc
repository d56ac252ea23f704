#include "paceline/kernels/batch_norm.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One channel of 1, 3, 5, 7: mean 4, variance 5 (unbiased 20/3), of which epsilon makes 25/4.
struct OneChannel {
  BatchNormForward forward_pass() {
    return {.shape = {.rows = 4, .channels = 1},
            .input = input.data(),
            .output = output.data(),
            .gamma = &gamma,
            .beta = &beta,
            .running_mean = &running_mean,
            .running_variance = &running_variance,
            .batches = &batches,
            .momentum = 0.25f,
            .epsilon = 1.25f,
            .statistics = statistics.data()};
  }

  BatchNormBackward backward_pass() {
    return {.shape = {.rows = 4, .channels = 1},
            .input = input.data(),
            .output = output.data(),
            .gradient = gradient.data(),
            .statistics = statistics.data(),
            .input_gradient = input_gradient.data(),
            .gamma_gradient = &gamma_gradient,
            .beta_gradient = &beta_gradient};
  }

  std::vector<float> input = {1, 3, 5, 7}, output = std::vector<float>(4), statistics = std::vector<float>(4);
  std::vector<float> gradient = {1, 0, 0, 0}, input_gradient = std::vector<float>(4), masked = std::vector<float>(4);
  float gamma = 5, beta = 1, running_mean = 8, running_variance = 0, gamma_gradient = 0, beta_gradient = 0;
  int64_t batches = 6;
};

TEST(BatchNormReference, ForwardIsTheFormula) {
  OneChannel c;
  batch_norm_forward_reference(c.forward_pass());
  EXPECT_THAT(c.output, ElementsAre(-5, -1, 3, 7));
  EXPECT_THAT(c.statistics, ElementsAre(4, 0.4f, 2, 1));
  EXPECT_EQ(c.running_mean, 0.75f * 8 + 0.25f * 4);
  EXPECT_FLOAT_EQ(c.running_variance, 0.25f * 20 / 3);
  EXPECT_EQ(c.batches, 7);
}

TEST(BatchNormReference, AddsTheResidualBeforeTheRelu) {
  OneChannel c;
  const std::vector<float> residual = {6, 0, -4, kNan};
  BatchNormForward pass = c.forward_pass();
  pass.residual = residual.data();
  pass.relu = true;
  pass.batches = nullptr;
  batch_norm_forward_reference(pass);
  EXPECT_THAT(std::vector(c.output.begin(), c.output.begin() + 3), ElementsAre(1, 0, 0));
  EXPECT_TRUE(std::isnan(c.output[3]));
}

TEST(BatchNormReference, BackwardIsTheFormula) {
  OneChannel c;
  batch_norm_forward_reference(c.forward_pass());
  batch_norm_backward_reference(c.backward_pass());
  EXPECT_EQ(c.beta_gradient, 1);
  EXPECT_FLOAT_EQ(c.gamma_gradient, -1.2f);  // (1 - 4)·0.4
  // scale·(g - 1/4 + (x - 4)·0.4·1.2/4) = 2·(g - 0.25 + 0.12·(x - 4))
  EXPECT_THAT(c.input_gradient, ElementsAre(FloatNear(0.78f, 1e-6f), FloatNear(-0.74f, 1e-6f), FloatNear(-0.26f, 1e-6f),
                                            FloatNear(0.22f, 1e-6f)));
}

TEST(BatchNormReference, NoGradientPassesWhereTheReluWasShut) {
  OneChannel c;
  c.gradient = {1, 2, 3, 4};
  BatchNormForward forward = c.forward_pass();
  forward.relu = true;
  batch_norm_forward_reference(forward);  // -5 and -1 are shut
  BatchNormBackward backward = c.backward_pass();
  backward.relu = true;
  backward.output = nullptr;  // found again from the input
  batch_norm_backward_reference(backward);
  EXPECT_EQ(c.beta_gradient, 3 + 4);
}

TEST(BatchNormReference, WithAResidualTheOutputSaysWhatPassed) {
  OneChannel c;
  c.gradient = {1, 2, 3, 4};
  batch_norm_forward_reference(c.forward_pass());
  c.output = {1, 0, 0, kNan};
  BatchNormBackward backward = c.backward_pass();
  backward.relu = true;
  backward.masked_gradient = c.masked.data();
  batch_norm_backward_reference(backward);
  EXPECT_THAT(c.masked, ElementsAre(1, 0, 0, 4));
  EXPECT_EQ(c.beta_gradient, 1 + 4);
}

TEST(BatchNormOnDevice, TakesChannelsInGroupsOfSixteenBytes) {
  const auto serves = [](int64_t rows, int64_t channels, DeviceNumber number) {
    return batch_norm_on_device_serves({rows, channels, number});
  };
  EXPECT_TRUE(serves(2, 4, DeviceNumber::f32));
  EXPECT_FALSE(serves(2, 4, DeviceNumber::f16));
  EXPECT_TRUE(serves(2, 8, DeviceNumber::bf16));
  EXPECT_FALSE(serves(2, 6, DeviceNumber::f32));
  EXPECT_FALSE(serves(2, 12, DeviceNumber::f16));
  EXPECT_TRUE(serves(256 * 112 * 112, 2048, DeviceNumber::f16));
}

TEST(BatchNormOnDevice, RefusesWhatHasNoVarianceOrIsTooLarge) {
  EXPECT_FALSE(batch_norm_on_device_serves({.rows = 0, .channels = 8}));
  EXPECT_FALSE(batch_norm_on_device_serves({.rows = 1, .channels = 8}));
  EXPECT_FALSE(batch_norm_on_device_serves({.rows = 2, .channels = 0}));
  EXPECT_FALSE(batch_norm_on_device_serves({.rows = int64_t{1} << 31, .channels = 8}));
  EXPECT_FALSE(batch_norm_on_device_serves({.rows = 2, .channels = 1 << 20}));
}

}  // namespace
}  // namespace paceline
