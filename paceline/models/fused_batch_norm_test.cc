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

BatchNormLayer layer_of(int64_t channels) {
  return {torch::randn({channels}).requires_grad_(),
          torch::randn({channels}).requires_grad_(),
          torch::zeros({channels}),
          torch::ones({channels}),
          torch::zeros({}, torch::kInt64),
          0.25,
          1e-5};
}

torch::Tensor grouped(const torch::Tensor& images) { return images.contiguous(torch::MemoryFormat::ChannelsLast); }

TEST(FusedBatchNorm, ServesACpuWhereSixteenChannelsLieSideBySide) {
  const auto serves = [](const torch::Tensor& images) {
    return fused_batch_norm_serves(images, {}, layer_of(images.size(1)));
  };
  const torch::Tensor images = torch::zeros({2, 16, 4, 4});
  EXPECT_TRUE(serves(grouped(images)));
  EXPECT_TRUE(serves(grouped(images.to(torch::kBFloat16))));
  EXPECT_FALSE(serves(images));
  EXPECT_FALSE(serves(grouped(images.to(torch::kFloat64))));
  EXPECT_FALSE(serves(grouped(images.to(torch::kFloat16))));
  EXPECT_FALSE(serves(grouped(torch::zeros({2, 24, 4, 4}))));
  EXPECT_FALSE(serves(torch::zeros({0, 16, 4, 4})));
  EXPECT_FALSE(serves(torch::zeros({1, 16, 1, 1})));
}

class FusedOnCpuTest : public ::testing::TestWithParam<Variant> {};

TEST_P(FusedOnCpuTest, IsTorchsSequenceAndItsGradients) {
  const auto [has_residual, relu] = GetParam();
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    torch::manual_seed(3);
    const BatchNormLayer layer = layer_of(32);
    const auto leaf = [&](double center) {
      return grouped(2 * torch::randn({5, 32, 7, 6}) + center).to(dtype).requires_grad_();
    };
    const torch::Tensor images = leaf(3), residual = leaf(0), gradient = leaf(0).detach();
    const torch::Tensor output = fused_batch_norm(images, has_residual ? residual : torch::Tensor(), relu, layer);
    output.backward(gradient);

    const auto copy = [](const torch::Tensor& tensor) {
      return tensor.detach().to(torch::kFloat64).clone().requires_grad_();
    };
    const torch::Tensor x = copy(images), r = copy(residual), weight = copy(layer.weight), bias = copy(layer.bias);
    torch::Tensor mean = torch::zeros({32}, torch::kFloat64), variance = torch::ones({32}, torch::kFloat64);
    torch::Tensor expected = torch::batch_norm(x, weight, bias, mean, variance, true, 0.25, 1e-5, false);
    if (has_residual) expected = expected + r;
    if (relu) expected = expected.relu();
    expected.backward(gradient.to(torch::kFloat64));

    const double few = dtype == torch::kFloat32 ? 2e-6 : 2e-2;  // what images are rounded to
    const auto close = [](const torch::Tensor& found, const torch::Tensor& right, double limit) {
      return (found.to(torch::kFloat64) - right).abs().max().item<double>() <= limit * right.abs().max().item<double>();
    };
    EXPECT_EQ(output.scalar_type(), dtype);
    EXPECT_TRUE(close(output, expected, few));
    EXPECT_TRUE(close(images.grad(), x.grad(), few));
    EXPECT_TRUE(close(layer.weight.grad(), weight.grad(), 1e-5));
    EXPECT_TRUE(close(layer.bias.grad(), bias.grad(), 1e-5));
    EXPECT_TRUE(close(layer.running_mean, mean, 1e-6));
    EXPECT_TRUE(close(layer.running_variance, variance, 1e-6));
    if (has_residual) {
      EXPECT_TRUE(close(residual.grad(), r.grad(), few));
    }
    EXPECT_EQ(layer.batches.item<int64_t>(), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, FusedOnCpuTest,
                         ::testing::Values(Variant{false, false}, Variant{false, true}, Variant{true, false},
                                           Variant{true, true}));

// libtorch adds them up one after the other: its variances are off by 1e-3 here.
TEST(FusedBatchNorm, StatisticsOfALargeBatchAreExact) {
  torch::manual_seed(1);
  const torch::Tensor images = grouped(torch::randn({4096, 16, 14, 14}).abs() + 0.3);
  const BatchNormLayer layer = layer_of(16);
  fused_batch_norm(images, {}, true, layer);
  const torch::Tensor exact = images.to(torch::kFloat64);
  const torch::Tensor mean = exact.mean({0, 2, 3}), variance = exact.var({0, 2, 3}, /*unbiased=*/true);
  EXPECT_LT(((layer.running_mean * 4 - mean) / mean).abs().max().item<double>(), 1e-6);
  EXPECT_LT((((layer.running_variance - 0.75) * 4 - variance) / variance).abs().max().item<double>(),
            3e-5);  // 0.75 of 1
}

// With sums that stand for two ranks with the same samples each, all is as with one.
TEST(FusedBatchNorm, OverRanksIsThatOfAllSamples) {
  torch::manual_seed(2);
  const torch::Tensor half = grouped(torch::randn({6, 16, 5, 5}) + 1);
  const BatchNormLayer whole = layer_of(16);
  BatchNormLayer shared = whole;
  shared.weight = whole.weight.detach().clone().requires_grad_();
  shared.bias = whole.bias.detach().clone().requires_grad_();
  shared.running_mean = whole.running_mean.clone(), shared.running_variance = whole.running_variance.clone();
  shared.batches = whole.batches.clone();
  const torch::Tensor both = grouped(torch::cat({half, half})).requires_grad_(), mine = half.clone().requires_grad_();
  const torch::Tensor gradient = grouped(torch::randn({6, 16, 5, 5}));
  int exchanges = 0;
  const SumOverRanks sum = [&](torch::Tensor& numbers) { numbers.mul_(2), ++exchanges; };
  const torch::Tensor expected = fused_batch_norm(both, {}, true, whole),
                      found = fused_batch_norm(mine, {}, true, shared, sum);
  expected.backward(grouped(torch::cat({gradient, gradient})));
  found.backward(gradient);
  EXPECT_EQ(exchanges, 2);
  EXPECT_TRUE(torch::allclose(found, expected.slice(0, 0, 6), 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(mine.grad(), both.grad().slice(0, 0, 6), 1e-4, 1e-6));
  EXPECT_TRUE(torch::allclose(2 * shared.weight.grad(), whole.weight.grad(), 1e-5, 1e-5));  // its share
  EXPECT_TRUE(torch::allclose(shared.running_variance, whole.running_variance, 1e-6, 1e-6));
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
