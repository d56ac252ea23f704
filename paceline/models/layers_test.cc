#include "paceline/models/layers.h"

#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/models/conv_block.h"

namespace paceline {
namespace {

TEST(BatchNorm, NormalisesABatchAndKeepsTorchsMovingAverages) {
  BatchNorm2d bn(1);
  bn.reset();
  const torch::Tensor images =
      torch::tensor({1.0f, 3.0f, 5.0f, 7.0f}).reshape({2, 1, 1, 2});  // mean 4, variance 5 (unbiased 20/3)
  const torch::Tensor out = bn.forward(images);
  EXPECT_TRUE(torch::allclose(out, (images - 4) / std::sqrt(5 + 1e-5), 0, 1e-6));
  const auto buffers = bn.named_buffers();
  EXPECT_FLOAT_EQ(buffers["running_mean"].item<float>(), 0.4f);
  EXPECT_FLOAT_EQ(buffers["running_var"].item<float>(), 0.9f + 0.1f * 20 / 3);
  EXPECT_EQ(buffers["num_batches_tracked"].item<int64_t>(), 1);
}

TEST(BatchNorm, EvaluationUsesTheMovingAveragesAndLeavesThem) {
  BatchNorm2d bn(1);
  bn.reset();
  bn.named_buffers()["running_mean"].fill_(2);
  bn.named_buffers()["running_var"].fill_(9);
  bn.eval();
  EXPECT_NEAR(bn.forward(torch::full({1, 1, 1, 1}, 5.0f)).item<float>(), 1, 1e-5);
  EXPECT_EQ(bn.named_buffers()["running_mean"].item<float>(), 2);
  EXPECT_EQ(bn.named_buffers()["num_batches_tracked"].item<int64_t>(), 0);
}

TEST(BatchNorm, RefusesToTrainOnOneValuePerChannel) {
  BatchNorm2d bn(3);
  bn.reset();
  EXPECT_THROW(bn.forward(torch::zeros({1, 3, 1, 1})), TrainingError);
  EXPECT_EQ(bn.named_buffers()["num_batches_tracked"].item<int64_t>(), 0);
  EXPECT_NO_THROW(bn.forward(torch::zeros({2, 3, 1, 1})));
}

TEST(ChannelsLast, ChangesTheLayoutAndNothingElse) {
  for (const int64_t channels : {1, 3}) {
    const torch::Tensor images = torch::arange(2 * channels * 4 * 5, torch::kFloat32).reshape({2, channels, 4, 5});
    const torch::Tensor grouped = channels_last(images);
    EXPECT_TRUE(grouped.equal(images));
    EXPECT_EQ(grouped.strides(), at::IntArrayRef({4 * 5 * channels, 1, 5 * channels, channels}));
  }
  EXPECT_EQ(channels_last(torch::zeros({0, 3, 4, 5})).numel(), 0);
}

TEST(Drop, PassesFeaturesUntouchedAtRateZeroAndInEvaluation) {
  const torch::Tensor features = torch::ones({1000});
  EXPECT_TRUE(drop(features, 0, true).is_same(features));
  EXPECT_TRUE(drop(features, 0.5, false).is_same(features));
  const torch::Tensor dropped = drop(features, 0.5, true);
  EXPECT_TRUE(((dropped == 0) | (dropped == 2)).all().item<bool>());
  EXPECT_FALSE(dropped.equal(features));
}

TEST(ConvBlock, RegistersItsLayersWithTheOwner) {
  torch::nn::Module owner;
  const ConvBlock block(owner, {.conv = "conv1", .bn = "bn1", .shape = {.in = 2, .out = 3, .kernel = 1}});
  EXPECT_EQ(owner.named_parameters().keys(), (std::vector<std::string>{"conv1.weight", "bn1.weight", "bn1.bias"}));
}

TEST(ConvBlock, AddsTheResidualBeforeTheRelu) {
  torch::nn::Module owner;
  const ConvBlock block(owner, {.conv = "c", .shape = {.in = 1, .out = 1, .kernel = 1, .bias = true}});
  torch::NoGradGuard no_grad;
  owner.named_parameters()["c.weight"].fill_(2);
  owner.named_parameters()["c.bias"].fill_(-1);
  const torch::Tensor images = torch::tensor({-3.0f, 0.0f, 3.0f, 4.0f}).reshape({1, 1, 2, 2});
  const torch::Tensor residual = torch::tensor({8.0f, 0.0f, -4.0f, -9.0f}).reshape({1, 1, 2, 2});
  EXPECT_TRUE(block.forward(images, residual).reshape(-1).equal(torch::tensor({1.0f, 0.0f, 1.0f, 0.0f})));
  EXPECT_TRUE(block.forward(images).reshape(-1).equal(torch::tensor({0.0f, 0.0f, 5.0f, 7.0f})));
}

TEST(ConvBlock, WithoutReluKeepsNegativeValues) {
  torch::nn::Module owner;
  const ConvBlock block(owner, {.conv = "c", .shape = {.in = 1, .out = 1, .kernel = 1}, .relu = false});
  torch::NoGradGuard no_grad;
  owner.named_parameters()["c.weight"].fill_(-1);
  EXPECT_EQ(block.forward(torch::ones({1, 1, 1, 1})).item<float>(), -1);
}

}  // namespace
}  // namespace paceline
