// What holds for every optimizer that a recipe can name.
#include "paceline/optim/optimizer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "paceline/core/error.h"
#include "paceline/optim/test_layer.h"

namespace paceline {
namespace {

class EveryOptimizerTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Epochs are steps / 4, and the hybrid hands over at step 6.
  static constexpr int kSteps = 10;

  std::unique_ptr<Optimizer> make(std::vector<Parameter> parameters, double average = 0) const {
    Recipe::Optimizer options;
    options.rate = 0.01;
    options.weight_decay = 1e-3;
    options.hybrid_epochs = 1.5;
    options.momentum_correction = true;
    options.average = average;
    return builtin_optimizers().at(GetParam())(std::move(parameters), options);
  }

  static StepCoefficients coefficients(int step, double gradient_scale = 1) {
    return {.rate = 0.01 / (1 + step), .momentum = 0.9, .gradient_scale = gradient_scale, .epoch = step / 4.0};
  }

  static void run(Optimizer& optimizer, TestLayer& layer, int from, int to) {
    for (int step = from; step < to; ++step) {
      layer.set_gradients(step);
      optimizer.step(coefficients(step));
    }
  }
};

TEST_P(EveryOptimizerTest, RestoredStateContinuesBitForBit) {
  for (const auto& [break_at, average] : {std::pair(1, 0.9), std::pair(6, 0.0), std::pair(7, 0.9)}) {
    TestLayer whole, resumed;
    const auto uninterrupted = make(parameters_of(whole), average), before = make(parameters_of(resumed), average);
    run(*uninterrupted, whole, 0, kSteps);
    run(*before, resumed, 0, break_at);
    Optimizer::State saved;
    for (const auto& [name, tensor] : before->state()) saved[name] = tensor.clone();
    const auto after = make(parameters_of(resumed), average);
    after->load_state(saved, "memory");
    run(*after, resumed, break_at, kSteps);
    EXPECT_TRUE(torch::equal(whole.weight, resumed.weight)) << break_at;
    EXPECT_TRUE(torch::equal(whole.bias, resumed.bias)) << break_at;
    const auto state = uninterrupted->state(), again = after->state();
    ASSERT_EQ(state.size(), again.size());
    for (const auto& [name, tensor] : state) EXPECT_TRUE(torch::equal(tensor, again.at(name))) << name;
  }
}

TEST_P(EveryOptimizerTest, HasTheSameBitsWithAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  TestLayer alone, together;
  const auto one = make(parameters_of(alone), 0.9), several = make(parameters_of(together), 0.9);
  at::set_num_threads(1);
  run(*one, alone, 0, kSteps);
  at::set_num_threads(2);
  run(*several, together, 0, kSteps);
  at::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(alone.weight, together.weight));
  for (const auto& [name, tensor] : one->state()) EXPECT_TRUE(torch::equal(tensor, several->state().at(name))) << name;
}

// Parameters of double precision take the way of those on a device: torch's operations.
TEST_P(EveryOptimizerTest, TorchsOperationsGiveTheSame) {
  TestLayer fused, plain(torch::kFloat64);
  const auto ours = make(parameters_of(fused), 0.9), theirs = make(parameters_of(plain), 0.9);
  run(*ours, fused, 0, kSteps);
  run(*theirs, plain, 0, kSteps);
  EXPECT_LT(distance(fused.weight, plain.weight), 2e-6);
  EXPECT_LT(distance(fused.bias, plain.bias), 2e-6);
  EXPECT_LT(distance(ours->state().at("average/weight"), theirs->state().at("average/weight")), 2e-6);
}

TEST_P(EveryOptimizerTest, TheGradientScaleIsAFactorOfEveryGradient) {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    TestLayer scaled(dtype), multiplied(dtype);
    const auto a = make(parameters_of(scaled)), b = make(parameters_of(multiplied));
    for (int step = 0; step < kSteps; ++step) {
      scaled.set_gradients(step);
      multiplied.set_gradients(step);
      for (const torch::Tensor& parameter : multiplied.parameters()) parameter.mutable_grad().mul_(0.25);
      a->step(coefficients(step, 0.25));
      b->step(coefficients(step));
    }
    EXPECT_LT(distance(scaled.weight, multiplied.weight), 1e-7);
  }
}

TEST_P(EveryOptimizerTest, TheInverseScaleIsAFactorAndAnOverflowChangesNothing) {
  TestLayer scaled, plain;
  const auto a = make(parameters_of(scaled)), b = make(parameters_of(plain));
  for (int step = 0; step < kSteps; ++step) {
    scaled.set_gradients(step);
    plain.set_gradients(step);
    StepCoefficients c = coefficients(step);
    c.inverse_scale = torch::full({1}, 0.25f);
    c.found_inf = torch::zeros({1});
    a->step(c);
    b->step(coefficients(step, 0.25));
  }
  EXPECT_TRUE(torch::equal(scaled.weight, plain.weight));
  StepCoefficients overflow = coefficients(kSteps);
  overflow.found_inf = torch::ones({1});
  a->step(overflow);
  EXPECT_TRUE(torch::equal(scaled.weight, plain.weight));
}

TEST_P(EveryOptimizerTest, KeepsAHalfCopyAndTakesItsGradient) {
  TestLayer layer, other;
  std::vector<Parameter> parameters = parameters_of(layer);
  parameters[0].half = layer.weight.detach().to(torch::kBFloat16);
  const auto a = make(parameters), b = make(parameters_of(other));
  layer.set_gradients(0);
  other.set_gradients(0);
  other.weight.mutable_grad() = other.weight.grad().to(torch::kBFloat16).to(torch::kFloat32);
  parameters[0].half.mutable_grad() = layer.weight.grad().to(torch::kBFloat16);
  layer.weight.mutable_grad().reset();
  a->step(coefficients(0));
  b->step(coefficients(0));
  EXPECT_TRUE(torch::equal(layer.weight, other.weight));
  EXPECT_TRUE(torch::equal(parameters[0].half, layer.weight.detach().to(torch::kBFloat16)));
}

TEST_P(EveryOptimizerTest, MovesEveryParameterThatHasAGradientAndNoOther) {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    TestLayer layer(dtype);
    const auto optimizer = make(parameters_of(layer));
    const torch::Tensor weight = layer.weight.detach().clone(), bias = layer.bias.detach().clone();
    for (const int step : {0, 8}) {
      optimizer->step(coefficients(step));
      EXPECT_TRUE(torch::equal(weight, layer.weight));
      EXPECT_TRUE(torch::equal(bias, layer.bias));
    }
    layer.set_gradients(0);
    layer.bias.mutable_grad().reset();
    optimizer->step(coefficients(9));
    EXPECT_GT(distance(weight, layer.weight), 0);
    EXPECT_TRUE(torch::equal(bias, layer.bias));
  }
}

TEST_P(EveryOptimizerTest, StaysFiniteWithZerosEverywhere) {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    for (const double start : {0.0, 1.0}) {
      torch::Tensor weight = torch::full({5, 3}, start, dtype).requires_grad_();
      const auto optimizer = make({{"weight", weight, true}});
      for (const int step : {0, 1, 7, 8}) {
        weight.mutable_grad() = torch::zeros({5, 3}, dtype);
        optimizer->step(coefficients(step));
        EXPECT_TRUE(weight.isfinite().all().item<bool>()) << step;
      }
      const torch::Tensor before = weight.detach().clone();
      weight.mutable_grad() = torch::ones({5, 3}, dtype);
      optimizer->step(coefficients(9));
      EXPECT_TRUE((weight < before).all().item<bool>()) << "weights at " << start << " must be able to move";
    }
  }
}

TEST_P(EveryOptimizerTest, TakesGradientsOfAnotherMemoryLayout) {
  torch::Tensor plain = torch::ones({2, 3, 4, 4}, torch::requires_grad()), other = plain.detach().clone();
  other.requires_grad_();
  plain.mutable_grad() = torch::arange(96, torch::kFloat32).view({2, 3, 4, 4});
  other.mutable_grad() = plain.grad().contiguous(torch::MemoryFormat::ChannelsLast);
  make({{"weight", plain, true}})->step(coefficients(0));
  make({{"weight", other, true}})->step(coefficients(0));
  EXPECT_TRUE(torch::equal(plain, other));
}

TEST_P(EveryOptimizerTest, AnEmptyListOfParametersIsFine) {
  const auto optimizer = make({}, 0.9);
  for (const int step : {0, 9}) optimizer->step(coefficients(step));
  make({}, 0.9)->load_state(optimizer->state(), "memory");
}

TEST_P(EveryOptimizerTest, RefusesStateThatIsNotItsOwn) {
  TestLayer layer;
  const auto optimizer = make(parameters_of(layer));
  auto state = optimizer->state();
  state.erase(state.begin());
  EXPECT_THROW(optimizer->load_state(state, "f"), DataError);
  state = optimizer->state();
  state["other"] = torch::zeros({3});
  EXPECT_THROW(optimizer->load_state(state, "f"), DataError);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryOptimizerTest, ::testing::ValuesIn(builtin_optimizers().names()),
                         [](const auto& info) { return info.param; });

TEST(BuiltinOptimizers, AreTheseSeven) {
  EXPECT_THAT(builtin_optimizers().names(),
              testing::UnorderedElementsAre("sgd", "lars", "adam", "adamw", "rmsprop", "adabound", "hybrid"));
}

}  // namespace
}  // namespace paceline
