#include "paceline/optim/sgd.h"

#include <gmock/gmock.h>
#include <torch/optim.h>

#include "paceline/core/error.h"
#include "paceline/optim/gradient_norm.h"

namespace paceline {
namespace {

// A weight matrix and a bias whose gradients are set by hand.
struct Layer : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::linspace(-1, 1, 300 * 201).view({300, 201}));
  torch::Tensor bias = register_parameter("bias", torch::linspace(0.5, 2, 300));
  void set_gradients(int step) {
    weight.mutable_grad() = torch::sin(torch::arange(weight.numel(), torch::kFloat32) + step).view_as(weight);
    bias.mutable_grad() = torch::cos(torch::arange(bias.numel(), torch::kFloat32) + step).view_as(bias);
  }
};

class SgdTest : public ::testing::TestWithParam<std::tuple<double, bool>> {};

TEST_P(SgdTest, EqualsTorchOver100Steps) {
  const auto [momentum, nesterov] = GetParam();
  Layer ours, theirs;
  Sgd sgd(parameters_of(ours), {.weight_decay = 0.01, .nesterov = nesterov});
  // torch decays everything in a group: the bias gets a group of its own.
  auto options = torch::optim::SGDOptions(0.05).momentum(momentum).nesterov(nesterov).weight_decay(0.01);
  auto bias_options = options;
  bias_options.weight_decay(0);
  torch::optim::SGD reference(
      {torch::optim::OptimizerParamGroup({theirs.weight}, std::make_unique<torch::optim::SGDOptions>(options)),
       torch::optim::OptimizerParamGroup({theirs.bias}, std::make_unique<torch::optim::SGDOptions>(bias_options))},
      options);
  for (int step = 0; step < 100; ++step) {
    ours.set_gradients(step);
    theirs.set_gradients(step);
    sgd.step({.rate = 0.05, .momentum = momentum});
    reference.step();
  }
  EXPECT_LT((ours.weight - theirs.weight).abs().max().item<float>(), 1e-6);
  EXPECT_LT((ours.bias - theirs.bias).abs().max().item<float>(), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Momentum, SgdTest,
                         ::testing::Values(std::tuple(0.0, false), std::tuple(0.9, false), std::tuple(0.9, true)));

TEST(Sgd, LeavesParametersWithoutGradientAlone) {
  Layer layer;
  Sgd sgd(parameters_of(layer), {.weight_decay = 0.1});
  const torch::Tensor before = layer.weight.clone();
  sgd.step({.rate = 1, .momentum = 0.9});
  EXPECT_TRUE(torch::equal(before, layer.weight));
}

TEST(Sgd, TakesGradientsOfAnotherMemoryLayout) {
  torch::Tensor weight = torch::zeros({2, 3, 4, 4}, torch::requires_grad());
  weight.mutable_grad() =
      torch::arange(96, torch::kFloat32).view({2, 3, 4, 4}).contiguous(torch::MemoryFormat::ChannelsLast);
  Sgd sgd({{"weight", weight, true}}, {});
  sgd.step({.rate = 1, .momentum = 0});
  EXPECT_TRUE(torch::equal(weight.detach(), -weight.grad()));
}

TEST(Sgd, AnEmptyListOfParametersIsFine) {
  Sgd sgd({}, {});
  sgd.step({.rate = 1, .momentum = 0.9});
  EXPECT_TRUE(sgd.state().empty());
}

TEST(Sgd, RestoredStateContinuesBitForBit) {
  Layer whole, resumed;
  Sgd uninterrupted(parameters_of(whole), {}), before(parameters_of(resumed), {}), after(parameters_of(resumed), {});
  const auto run = [](Sgd& sgd, Layer& layer, int from, int to) {
    for (int step = from; step < to; ++step) {
      layer.set_gradients(step);
      sgd.step({.rate = 0.1, .momentum = 0.9});
    }
  };
  run(uninterrupted, whole, 0, 10);
  run(before, resumed, 0, 5);
  after.load_state(before.state(), "memory");
  run(after, resumed, 5, 10);
  EXPECT_TRUE(torch::equal(whole.weight, resumed.weight));
}

TEST(Sgd, RefusesStateThatIsNotItsOwn) {
  Layer layer;
  Sgd sgd(parameters_of(layer), {});
  auto state = sgd.state();
  state.erase("momentum/bias");
  EXPECT_THROW(sgd.load_state(state, "f"), DataError);
  state["momentum/bias"] = torch::zeros({3});
  EXPECT_THROW(sgd.load_state(state, "f"), DataError);
  state["momentum/bias"] = torch::zeros({300});
  state["momentum/bios"] = torch::zeros({300});
  EXPECT_THROW(sgd.load_state(state, "f"), DataError);
}

TEST(GradientNorm, IsTheLengthOfAllGradientsTogether) {
  Layer layer;
  EXPECT_EQ(gradient_norm(parameters_of(layer)), 0);
  layer.set_gradients(0);
  const double expected = std::sqrt(layer.weight.grad().to(torch::kFloat64).square().sum().item<double>() +
                                    layer.bias.grad().to(torch::kFloat64).square().sum().item<double>());
  EXPECT_NEAR(gradient_norm(parameters_of(layer)), expected, 1e-9 * expected);
}

TEST(GradientNorm, DoesNotDependOnTheNumberOfThreads) {
  Layer layer;
  layer.set_gradients(0);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = gradient_norm(parameters_of(layer));
  at::set_num_threads(3);
  const double together = gradient_norm(parameters_of(layer));
  at::set_num_threads(threads);
  EXPECT_EQ(alone, together);
}

TEST(ClipScale, ShortensLongGradientsOnly) {
  EXPECT_EQ(clip_scale(10, 5), 0.5);
  EXPECT_EQ(clip_scale(4, 5), 1);
  EXPECT_EQ(clip_scale(10, 0), 1);
  EXPECT_EQ(clip_scale(0, 5), 1);
}

}  // namespace
}  // namespace paceline
