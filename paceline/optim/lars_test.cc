#include "paceline/optim/lars.h"

#include <gmock/gmock.h>

#include "paceline/optim/lars_share.h"
#include "paceline/optim/test_layer.h"

namespace paceline {
namespace {

// MLPerf's form, from its definition and in double precision: eta 0.001, epsilon 0, the decay in the denominator and in
// the direction, the rate inside the momentum; biases with the plain rate and without decay.
class MlperfLars {
 public:
  MlperfLars(torch::Tensor weights, bool adapted) : weights_(weights.detach().to(torch::kFloat64)), adapted_(adapted) {}

  void step(const torch::Tensor& gradient, double rate, double momentum, double decay) {
    const torch::Tensor g = gradient.to(torch::kFloat64);
    double local = rate;
    if (adapted_) {
      const double w_norm = weights_.norm().item<double>(), g_norm = g.norm().item<double>();
      if (w_norm > 0 && g_norm > 0) local = rate * 0.001 * w_norm / (g_norm + decay * w_norm);
    }
    velocity_ = momentum * velocity_ + local * (g + (adapted_ ? decay : 0) * weights_);
    weights_ = weights_ - velocity_;
  }

  const torch::Tensor& weights() const { return weights_; }

 private:
  torch::Tensor weights_, velocity_ = torch::zeros({}, torch::kFloat64);
  bool adapted_;
};

TEST(Lars, EqualsMlperfsFormOver100Steps) {
  TestLayer layer;
  Lars lars(parameters_of(layer), {.eta = 0.001, .epsilon = 0, .weight_decay = 0.05});
  MlperfLars weight(layer.weight, true), bias(layer.bias, false);
  for (int step = 0; step < 100; ++step) {
    const double rate = 0.02 * (100 - step), bias_rate = rate;
    layer.set_gradients(step);
    weight.step(layer.weight.grad(), rate, 0.9, 0.05);
    bias.step(layer.bias.grad(), bias_rate, 0.9, 0.05);
    lars.step({.rate = rate, .momentum = 0.9});
  }
  EXPECT_LT(distance(layer.weight, weight.weights()), 1e-6);
  EXPECT_LT(distance(layer.bias, bias.weights()), 1e-4);  // moved by tens: 1e-6 relative
}

TEST(Lars, EachLayerMovesInProportionToItsNorm) {
  torch::Tensor small = torch::full({10, 10}, 0.01).requires_grad_(),
                large = torch::full({10, 10}, 5.0).requires_grad_();
  small.mutable_grad() = torch::full({10, 10}, 100.0);
  large.mutable_grad() = torch::full({10, 10}, 1e-3);
  Lars lars({{"small", small, true}, {"large", large, true}}, {.eta = 0.001});
  lars.step({.rate = 2, .momentum = 0});
  EXPECT_NEAR(small[0][0].item<float>() / 0.01, 1 - 0.002, 1e-6);
  EXPECT_NEAR(large[0][0].item<float>() / 5, 1 - 0.002, 1e-6);
}

TEST(Lars, WeightsOfNormZeroGetThePlainRate) {
  torch::Tensor weight = torch::zeros({4, 4}).requires_grad_();
  weight.mutable_grad() = torch::ones({4, 4});
  Lars lars({{"weight", weight, true}}, {.eta = 0.001, .weight_decay = 1e-4});
  lars.step({.rate = 0.5, .momentum = 0});
  EXPECT_TRUE((weight == -0.5).all().item<bool>());
}

// With the correction, a change of the rate acts on the whole update at once, as if the rate were outside the buffer.
TEST(Lars, MomentumCorrectionScalesWhatWasGathered) {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    torch::Tensor corrected = torch::zeros({3}, dtype).requires_grad_(),
                  plain = torch::zeros({3}, dtype).requires_grad_();
    Lars with({{"bias", corrected, false}}, {.momentum_correction = true}), without({{"bias", plain, false}}, {});
    for (const double rate : {1.0, 0.25}) {
      corrected.mutable_grad() = plain.mutable_grad() = torch::ones({3}, dtype);
      with.step({.rate = rate, .momentum = 0.5});
      without.step({.rate = rate, .momentum = 0.5});
    }
    EXPECT_TRUE((corrected == -1 - 0.25 * (1 + 0.5)).all().item<bool>());
    EXPECT_TRUE((plain == -1 - (0.25 + 0.5 * 1)).all().item<bool>());
  }
}

TEST(Lars, NormsAreThoseOfWholeLayersLargerThanAChunk) {
  const int64_t count = 3 * kChunkElements + 17;
  torch::Tensor weight = torch::full({1, count}, 0.5).requires_grad_();
  weight.mutable_grad() = torch::full({1, count}, 4.0);
  Lars lars({{"weight", weight, true}}, {.eta = 0.01});
  lars.step({.rate = 1, .momentum = 0});
  EXPECT_NEAR(weight[0][count - 1].item<float>(), 0.5 * (1 - 0.01), 1e-7);
}

TEST(LarsShare, WarnsWhereNothingWouldMove) {
  EXPECT_EQ(warning_of_lars_share(0.1, 0.001).value(),
            "optimizer.eta: LARS will move a layer by 0.0001 of its norm in a step at the most (rate 0.1 times eta "
            "0.001); 0.01 to 0.06 is usual (docs/large_batches.md)");
  EXPECT_EQ(warning_of_lars_share(2.4, 0.001), std::nullopt);  // recipes/lu_exponential.toml
  EXPECT_EQ(warning_of_lars_share(50, 0.01), std::nullopt);    // recipes/mikami_exp3.toml
}

}  // namespace
}  // namespace paceline
