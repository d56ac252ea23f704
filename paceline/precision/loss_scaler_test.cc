#include "paceline/precision/loss_scaler.h"

#include <gmock/gmock.h>

#include <limits>

#include "paceline/core/error.h"
#include "paceline/precision/finite_check.h"

namespace paceline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

torch::Tensor numbers(at::IntArrayRef shape) { return torch::arange(c10::multiply_integers(shape)).sin().view(shape); }

LossScaler scaler(LossScaleOptions options = {.first = 8, .growth_steps = 2}) {
  return LossScaler(LossScale(options), torch::kCPU);
}

TEST(FiniteCheck, FindsOneElementOfManyTensors) {
  std::vector<torch::Tensor> tensors = {torch::zeros({0}), numbers({200'000}), numbers({3, 5, 7}), numbers({4, 6}).t(),
                                        numbers({9}).to(torch::kFloat64)};
  EXPECT_EQ(any_not_finite({}, torch::kCPU).item<float>(), 0);
  EXPECT_EQ(any_not_finite(tensors, torch::kCPU).item<float>(), 0);
  for (size_t i = 1; i < tensors.size(); ++i) {
    const torch::Tensor kept = tensors[i].clone();
    torch::Tensor changed = tensors[i].clone();
    changed.select(0, changed.size(0) - 1).fill_(-kInfinity);
    tensors[i] = changed;
    EXPECT_EQ(any_not_finite(tensors, torch::kCPU).item<float>(), 1) << i;
    EXPECT_EQ(count_not_finite(tensors[i]), changed.select(0, 0).numel()) << i;
    tensors[i] = kept;
  }
}

TEST(FiniteCheck, LooksOnlyAtTheElementsOfAView) {
  const torch::Tensor whole = torch::zeros({4, 4});
  whole.select(1, 3).fill_(kInfinity);
  const torch::Tensor part = whole.narrow(1, 0, 3);  // its rows lie apart
  EXPECT_EQ(any_not_finite({part}, torch::kCPU).item<float>(), 0);
  EXPECT_EQ(count_not_finite(part), 0);
  EXPECT_EQ(count_not_finite(whole), 4);
}

TEST(LossScaler, ScalesTheLossAndSaysHowToUndoIt) {
  LossScaler s = scaler();
  torch::Tensor w = torch::tensor(3.0f).requires_grad_();
  s.scaled(2 * w).backward();
  EXPECT_EQ(w.grad().item<float>(), 16);
  s.inspect({w.grad()});
  ASSERT_TRUE(s.accept());
  EXPECT_EQ(s.gradient_scale() * w.grad().item<float>(), 2);
}

TEST(LossScaler, SkipsAnOverflowAndHalves) {
  LossScaler s = scaler();
  const torch::Tensor scale = s.scale(), inverse = s.inverse_scale(),
                      overflow = s.overflow();  // as a kernel holds them
  s.inspect({torch::ones({3}), torch::full({2}, kInfinity)});
  EXPECT_EQ(overflow.item<float>(), 1);
  EXPECT_FALSE(s.accept());
  EXPECT_EQ(scale.item<float>(), 4);
  EXPECT_EQ(inverse.item<float>(), 0.25);
  s.inspect({torch::ones({3})});
  EXPECT_EQ(overflow.item<float>(), 0);
  EXPECT_TRUE(s.accept());
  EXPECT_FALSE(s.accept(/*known=*/true));
  EXPECT_EQ(s.state().skipped_steps, 2);
}

TEST(LossScaler, TheStepBeforeAGrowthIsUndoneWithItsOwnScale) {
  LossScaler s = scaler({.first = 8, .growth_steps = 1});
  s.inspect({torch::ones({1})});
  ASSERT_TRUE(s.accept());
  EXPECT_EQ(s.gradient_scale(), 1.0 / 8);
  EXPECT_EQ(s.scale().item<float>(), 16);
}

TEST(LossScaler, GradientsOfZeroAreClean) {
  LossScaler s = scaler();
  for (int step = 0; step < 4; ++step) {
    s.inspect({torch::zeros({5})});
    EXPECT_TRUE(s.accept());
  }
  EXPECT_EQ(s.scale().item<float>(), 32);
}

TEST(LossScaler, DecidesOnTheDeviceAsTheHostWould) {
  for (const LossScaleOptions options :
       {LossScaleOptions{.first = 64, .growth_steps = 3, .floor = 4}, LossScaleOptions{.dynamic = false, .first = 64},
        LossScaleOptions{.first = 0x1p39, .growth_steps = 1}}) {
    LossScaler told = scaler(options), untold = scaler(options);
    uint32_t random = 1;
    for (int step = 0; step < 300; ++step) {
      random = random * 1664525 + 1013904223;
      const bool overflow = (random >> 24) < (step / 100 % 2 == 0 ? 60 : 200);
      const torch::Tensor gradient = torch::full({2}, overflow ? kInfinity : 1);
      told.inspect({gradient});
      told.accept();
      untold.inspect({gradient});
      untold.accept_on_device();
      EXPECT_EQ(untold.scale().item<float>(), told.scale().item<float>());
      EXPECT_EQ(untold.inverse_scale().item<float>(), told.inverse_scale().item<float>());
      if (step % 7 != 0) continue;
      untold.settle();
      EXPECT_EQ(untold.state(), told.state());
    }
  }
}

TEST(LossScaler, SettlingTellsOfTooManySkipsThatAreOver) {
  LossScaler s = scaler({.first = 64, .most_skips = 3});
  const auto step = [&](float gradient) {
    s.inspect({torch::full({1}, gradient)});
    s.accept_on_device();
  };
  for (const float gradient : {kInfinity, kInfinity, 1.0f}) step(gradient);
  EXPECT_NO_THROW(s.settle());
  for (const float gradient : {kInfinity, kInfinity, kInfinity, 1.0f}) step(gradient);
  EXPECT_THROW(s.settle(), TrainingError);
}

TEST(LossScaler, ResumesOnTheDeviceToo) {
  LossScaler s = scaler();
  s.resume({.scale = 0.5, .clean_steps = 1, .skipped_steps = 4});
  EXPECT_EQ(s.scale().item<float>(), 0.5);
  EXPECT_EQ(s.inverse_scale().item<float>(), 2);
  s.inspect({});
  s.accept();
  EXPECT_EQ(s.scale().item<float>(), 1);  // the second clean step
}

}  // namespace
}  // namespace paceline
