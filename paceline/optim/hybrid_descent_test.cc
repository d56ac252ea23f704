#include "paceline/optim/hybrid_descent.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"
#include "paceline/optim/test_layer.h"

namespace paceline {
namespace {

constexpr HybridDescentOptions kOptions = {
    .warmup_epochs = 2, .adaptive_rate = 1e-3, .lars = {.eta = 0.001, .weight_decay = 1e-4}};

std::vector<std::string> names(const Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer.state()) names.push_back(name);
  return names;
}

TEST(HybridDescent, WarmsUpByLusFormulaWithoutBiasCorrection) {
  TestLayer layer;
  HybridDescentOptions options = kOptions;
  options.lars.weight_decay = 0;
  HybridDescent hybrid(parameters_of(layer), options);
  torch::Tensor w = layer.weight.detach().to(torch::kFloat64), m = torch::zeros_like(w), v = torch::zeros_like(w);
  for (int step = 0; step < 20; ++step) {
    const double epoch = step / 10.0, rate = 0.4;
    layer.set_gradients(step + 1);  // not 0 anywhere: the formula has no guard
    const torch::Tensor g = layer.weight.grad().to(torch::kFloat64);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    torch::Tensor own = (1e-3 / v.sqrt()).clamp_min(epoch / 2 * rate);
    if (epoch > 0) own = own.clamp_max(rate + 1000 / epoch - 1000.0 / 2);
    w = w - own * m;
    hybrid.step({.rate = rate, .momentum = 0.9, .epoch = epoch});
  }
  EXPECT_LT(distance(layer.weight, w), 2e-6);
}

TEST(HybridDescent, HandsOverToLarsWithTheWeightsAndNothingElse) {
  TestLayer layer;
  HybridDescent hybrid(parameters_of(layer), kOptions);
  for (int step = 0; step < 4; ++step) {
    layer.set_gradients(step);
    hybrid.step({.rate = 0.4, .momentum = 0.9, .epoch = step / 2.0});
  }
  EXPECT_THAT(names(hybrid), testing::ElementsAre("first/bias", "first/weight", "second/bias", "second/weight"));

  TestLayer other;
  other.weight.detach().copy_(layer.weight.detach());
  other.bias.detach().copy_(layer.bias.detach());
  Lars lars(parameters_of(other), kOptions.lars);
  for (int step = 4; step < 8; ++step) {
    layer.set_gradients(step);
    other.set_gradients(step);
    hybrid.step({.rate = 0.4, .momentum = 0.9, .epoch = step / 2.0});
    lars.step({.rate = 0.4, .momentum = 0.9, .epoch = step / 2.0});
  }
  EXPECT_THAT(names(hybrid), testing::ElementsAre("momentum/bias", "momentum/weight"));
  EXPECT_TRUE(torch::equal(layer.weight, other.weight));
  EXPECT_TRUE(torch::equal(layer.bias, other.bias));
}

TEST(HybridDescent, GoesBackToTheStageOfTheStateItIsGiven) {
  TestLayer layer;
  HybridDescent hybrid(parameters_of(layer), kOptions);
  const Optimizer::State first_stage = hybrid.state();
  layer.set_gradients(0);
  hybrid.step({.rate = 0.4, .momentum = 0.9, .epoch = 2});
  const Optimizer::State second_stage = hybrid.state();
  hybrid.load_state(first_stage, "memory");
  EXPECT_EQ(names(hybrid).front(), "first/bias");
  hybrid.load_state(second_stage, "memory");
  EXPECT_EQ(names(hybrid).front(), "momentum/bias");
  Optimizer::State mixed = first_stage;
  mixed.insert(second_stage.begin(), second_stage.end());
  EXPECT_THROW(hybrid.load_state(mixed, "memory"), DataError);
}

}  // namespace
}  // namespace paceline
