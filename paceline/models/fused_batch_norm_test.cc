// The kernels' reference beside torch's own operations, and when the fused operation is taken. The kernels themselves
// are compared with the reference where there is a GPU: tests/gpu.
#include "paceline/models/fused_batch_norm.h"

#include <gtest/gtest.h>

#include "paceline/kernels/batch_norm.h"
#include "paceline/models/layers.h"

namespace paceline {
namespace {

constexpr int64_t kRows = 37, kChannels = 5;  // rows x channels, as images of one pixel

struct Variant {
  bool residual, relu;
};

class BatchNormReferenceTest : public ::testing::TestWithParam<Variant> {};

torch::Tensor flat(const torch::Tensor& images) { return images.detach().reshape({kRows, kChannels}); }

TEST_P(BatchNormReferenceTest, IsTorchsSequenceAndItsGradients) {
  const auto [has_residual, relu] = GetParam();
  torch::manual_seed(3);
  const torch::Tensor images = (3 * torch::randn({kRows, kChannels, 1, 1}) + 7).requires_grad_();
  const torch::Tensor residual = torch::randn_like(images).requires_grad_();
  const torch::Tensor weight = torch::randn({kChannels}).requires_grad_(),
                      bias = torch::randn({kChannels}).requires_grad_();
  const torch::Tensor gradient = torch::randn_like(images);
  torch::Tensor mean = torch::randn({kChannels}), variance = torch::randn({kChannels}).abs();
  const torch::Tensor own_mean = mean.clone(), own_variance = variance.clone();

  torch::Tensor expected = torch::batch_norm(images, weight, bias, mean, variance, true, 0.3, 1e-5, false);
  if (has_residual) expected = expected + residual;
  if (relu) expected = expected.relu();
  expected.backward(gradient);

  const torch::Tensor output = torch::empty({kRows, kChannels}), statistics = torch::empty({4, kChannels});
  const BatchNormShape shape = {.rows = kRows, .channels = kChannels};
  batch_norm_forward_reference({.shape = shape,
                                .input = images.const_data_ptr(),
                                .residual = has_residual ? residual.const_data_ptr() : nullptr,
                                .output = output.data_ptr(),
                                .relu = relu,
                                .gamma = weight.const_data_ptr<float>(),
                                .beta = bias.const_data_ptr<float>(),
                                .running_mean = own_mean.data_ptr<float>(),
                                .running_variance = own_variance.data_ptr<float>(),
                                .momentum = 0.3f,
                                .epsilon = 1e-5f,
                                .statistics = statistics.data_ptr<float>()});
  EXPECT_TRUE(torch::allclose(output, flat(expected), 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(own_mean, mean, 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(own_variance, variance, 1e-5, 1e-5));

  const torch::Tensor images_gradient = torch::empty_like(output), masked_gradient = torch::empty_like(output);
  const torch::Tensor weight_gradient = torch::empty({kChannels}), bias_gradient = torch::empty({kChannels});
  const bool masks = has_residual && relu;
  batch_norm_backward_reference({.shape = shape,
                                 .input = images.const_data_ptr(),
                                 .output = masks ? output.const_data_ptr() : nullptr,
                                 .gradient = gradient.const_data_ptr(),
                                 .relu = relu,
                                 .statistics = statistics.const_data_ptr<float>(),
                                 .masked_gradient = masks ? masked_gradient.data_ptr() : nullptr,
                                 .input_gradient = images_gradient.data_ptr(),
                                 .gamma_gradient = weight_gradient.data_ptr<float>(),
                                 .beta_gradient = bias_gradient.data_ptr<float>()});
  EXPECT_TRUE(torch::allclose(images_gradient, flat(images.grad()), 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(weight_gradient, weight.grad(), 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(bias_gradient, bias.grad(), 1e-5, 1e-5));
  if (masks) {
    EXPECT_TRUE(masked_gradient.equal(flat(residual.grad())));
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, BatchNormReferenceTest,
                         ::testing::Values(Variant{false, false}, Variant{false, true}, Variant{true, false},
                                           Variant{true, true}),
                         [](const auto& info) {
                           return std::string(info.param.residual ? "Residual" : "Plain") +
                                  (info.param.relu ? "Relu" : "");
                         });

TEST(FusedBatchNorm, DoesNotServeTheCpu) {
  const torch::Tensor images = torch::zeros({2, 8, 4, 4}).contiguous(torch::MemoryFormat::ChannelsLast);
  const torch::Tensor ones = torch::ones({8});
  const BatchNormLayer layer = {ones, ones, ones, ones, torch::zeros({}, torch::kInt64), 0.1, 1e-5};
  EXPECT_FALSE(fused_batch_norm_serves(images, {}, layer));
}

TEST(BatchNorm, WithResidualAndReluHasTheBitsOfTheThreeOperations) {
  for (const bool training : {true, false}) {
    BatchNorm2d whole(8), plain(8);
    for (BatchNorm2d* layer : {&whole, &plain}) {
      layer->reset();
      layer->train(training);
    }
    torch::manual_seed(5);
    const torch::Tensor images = torch::randn({2, 8, 3, 3}), residual = torch::randn({2, 8, 3, 3});
    const torch::Tensor normalised = plain.forward(images);
    EXPECT_TRUE(whole.forward(images, residual, true).equal((normalised + residual).relu()));
    for (const auto& buffer : plain.named_buffers()) {
      EXPECT_TRUE(whole.named_buffers()[buffer.key()].equal(buffer.value())) << buffer.key();
    }
    EXPECT_EQ(whole.named_buffers()["num_batches_tracked"].item<int64_t>(), training ? 1 : 0);
    EXPECT_TRUE(whole.forward(images, {}, true).equal(plain.forward(images).relu()));
    EXPECT_TRUE(whole.forward(images, residual).equal(plain.forward(images) + residual));
  }
}

}  // namespace
}  // namespace paceline
