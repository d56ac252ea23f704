#include "paceline/optim/hybrid_descent.h"

#include <gmock/gmock.h>

#include <limits>

#include "paceline/core/error.h"
#include "paceline/optim/test_layer.h"

namespace paceline {
namespace {

constexpr HybridDescentOptions kOptions = {
    .warmup_epochs = 2, .adaptive_rate = 1e-3, .lars = {.eta = 0.001, .weight_decay = 1e-4}};

// AdaBound without bias correction, as methods print it.
struct FormulaOfTensor {
  explicit FormulaOfTensor(const torch::Tensor& parameter_)
      : parameter(parameter_), w(parameter.detach().to(torch::kFloat64)) {
    m = torch::zeros_like(w);
    v = torch::zeros_like(w);
  }
  void step(double rate, double beta2, double lower, double upper) {
    const torch::Tensor g = parameter.grad().to(torch::kFloat64);
    m = 0.9 * m + 0.1 * g;
    v = beta2 * v + (1 - beta2) * g * g;
    w = w - (rate / v.sqrt()).clamp(lower, upper) * m;
  }
  torch::Tensor parameter;
  torch::Tensor w, m, v;
};

std::vector<std::string> names(const Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer.state()) names.push_back(name);
  return names;
}

// The formula in double precision, on weights and biases: neither decays before the hand-over. With beta2 = 0.9 the upper bound
// acts from early on, with 0.999 at the end.
TEST(HybridDescent, WarmsUpByLusFormulaOver100Steps) {
  for (const double beta2 : {0.9, 0.999}) {
    TestLayer layer;
    HybridDescentOptions options = kOptions;
    options.beta2 = beta2;
    options.lars.weight_decay = 0.01;
    HybridDescent hybrid(parameters_of(layer), options);
    std::vector<FormulaOfTensor> expected = {FormulaOfTensor(layer.weight), FormulaOfTensor(layer.bias)};
    for (int step = 0; step < 100; ++step) {
      const double epoch = step / 50.0, rate = 0.02, memory = 1 / (1 - beta2);
      layer.set_gradients(step + 1);  // not 0 anywhere: the formula has no guard
      const double upper = epoch > 0 ? rate + memory / epoch - memory / 2 : std::numeric_limits<double>::infinity();
      for (FormulaOfTensor& one : expected) one.step(1e-3, beta2, epoch / 2 * rate, upper);
      hybrid.step({.rate = rate, .momentum = 0.9, .epoch = epoch});
    }
    EXPECT_LT(relative_distance(layer.weight, expected[0].w), 2e-6) << beta2;  // a hundred roundings; decay would be 1e-4
    EXPECT_LT(relative_distance(layer.bias, expected[1].w), 1e-6) << beta2;
  }
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
