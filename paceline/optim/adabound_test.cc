#include "paceline/optim/adabound.h"

#include <gmock/gmock.h>

#include <cmath>

#include "paceline/optim/test_layer.h"

namespace paceline {
namespace {

// On weights and biases, which are not decayed. With gamma 1e-3 rates are kept up by the lower bound, with a final rate
// of 1e-4 and gamma 1 they are held down by the upper one.
TEST(Adabound, EqualsThePapersFormulaOver100Steps) {
  struct Closing {
    double final_rate, gamma;
  };
  for (const Closing closing : {Closing{0.1, 1e-3}, Closing{1e-4, 1}}) {
    TestLayer layer;
    Adabound adabound(
        parameters_of(layer),
        {.base_rate = 1e-3, .final_rate = closing.final_rate, .gamma = closing.gamma, .weight_decay = 1e-3});
    const std::vector<torch::Tensor> parameters = {layer.weight, layer.bias};
    std::vector<torch::Tensor> w, m, v;
    for (const torch::Tensor& parameter : parameters) {
      w.push_back(parameter.detach().to(torch::kFloat64));
      m.push_back(torch::zeros_like(w.back()));
      v.push_back(torch::zeros_like(w.back()));
    }
    for (int step = 1; step <= 100; ++step) {
      layer.set_gradients(step);
      const double lower = closing.final_rate * (1 - 1 / (closing.gamma * step + 1)),
                   upper = closing.final_rate * (1 + 1 / (closing.gamma * step));
      for (size_t i = 0; i < 2; ++i) {
        const torch::Tensor g = parameters[i].grad().to(torch::kFloat64) + (i == 0 ? 1e-3 : 0) * w[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        const torch::Tensor first = m[i] / (1 - std::pow(0.9, step)), second = v[i] / (1 - std::pow(0.999, step));
        w[i] = w[i] - (1e-3 / second.sqrt()).clamp(lower, upper) * first;
      }
      adabound.step({.rate = 1e-3});
    }
    for (size_t i = 0; i < 2; ++i)
      EXPECT_LT(relative_distance(parameters[i], w[i]), 1e-6) << closing.gamma << ", " << i;
  }
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
