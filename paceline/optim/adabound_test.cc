#include "paceline/optim/adabound.h"

#include <gmock/gmock.h>

#include <cmath>

#include "paceline/optim/test_layer.h"

namespace paceline {
namespace {

TEST(Adabound, EqualsThePapersFormulaOver100Steps) {
  TestLayer layer;
  Adabound adabound(parameters_of(layer), {.base_rate = 1e-3, .final_rate = 0.1, .gamma = 1e-3});
  torch::Tensor w = layer.weight.detach().to(torch::kFloat64), m = torch::zeros_like(w), v = torch::zeros_like(w);
  for (int step = 1; step <= 100; ++step) {
    layer.set_gradients(step);
    const torch::Tensor g = layer.weight.grad().to(torch::kFloat64);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const torch::Tensor first = m / (1 - std::pow(0.9, step)), second = v / (1 - std::pow(0.999, step));
    const double lower = 0.1 * (1 - 1 / (1e-3 * step + 1)), upper = 0.1 * (1 + 1 / (1e-3 * step));
    w = w - (1e-3 / second.sqrt()).clamp(lower, upper) * first;
    adabound.step({.rate = 1e-3});
  }
  EXPECT_LT(distance(layer.weight, w), 1e-6);
}

TEST(Adabound, TheFinalRateFollowsTheSchedule) {
  torch::Tensor weight = torch::zeros({1}).requires_grad_();
  // Bounds that are closed from the first step on: SGD with the final rate.
  Adabound adabound({{"weight", weight, true}}, {.base_rate = 1e-3, .final_rate = 0.1, .gamma = 1e12, .beta1 = 0});
  for (const double rate : {1e-3, 5e-4}) {
    weight.mutable_grad() = torch::ones({1});
    adabound.step({.rate = rate});
  }
  EXPECT_NEAR(weight.item<float>(), -0.1 - 0.05, 1e-6);
}

}  // namespace
}  // namespace paceline
