#include "paceline/precision/autocast.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>

namespace paceline {
namespace {

constexpr auto kCpu = torch::kCPU;

torch::Tensor numbers(at::IntArrayRef shape) { return torch::arange(c10::multiply_integers(shape)).sin().view(shape); }

TEST(Autocast, ProductsAreRoundedAndGradientsAreNot) {
  const torch::Tensor x = numbers({4, 8});
  torch::Tensor w = numbers({3, 8}).requires_grad_();
  torch::Tensor y;
  {
    const Autocast autocast(kCpu, torch::kBFloat16);
    y = torch::linear(x, w);
  }
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  const torch::Tensor rounded = torch::linear(x.to(torch::kBFloat16), w.detach().to(torch::kBFloat16));
  EXPECT_TRUE(torch::equal(y, rounded));
  y.to(torch::kFloat32).sum().backward();
  EXPECT_EQ(w.grad().scalar_type(), torch::kFloat32);
  EXPECT_EQ(w.scalar_type(), torch::kFloat32);
}

TEST(Autocast, BatchNormalisationKeepsItsStatisticsInF32) {
  const torch::Tensor x = 100 + numbers({16, 3, 4, 4});
  const torch::Tensor gamma = torch::ones({3}), beta = torch::zeros({3});
  torch::Tensor mean = torch::zeros({3}), variance = torch::ones({3});
  const torch::Tensor rounded = x.to(torch::kBFloat16);
  torch::Tensor y;
  {
    const Autocast autocast(kCpu, torch::kBFloat16);
    y = torch::batch_norm(rounded, gamma, beta, mean, variance, true, 1.0, 1e-5, true);
  }
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(mean.scalar_type(), torch::kFloat32);
  const torch::Tensor expected = rounded.to(torch::kFloat64).mean({0, 2, 3});
  EXPECT_LT((mean - expected).abs().max().item<double>(), 1e-4);  // a bf16 near 100 is right to 0.25
}

// With the cache, a second pass after an update would still see the old weights.
TEST(Autocast, TheNextPassSeesTheUpdate) {
  const torch::Tensor x = torch::ones({1, 1});
  torch::Tensor w = torch::ones({1, 1}).requires_grad_();
  const auto pass = [&] {
    const Autocast autocast(kCpu, torch::kBFloat16);
    return torch::linear(x, w).item<float>();
  };
  EXPECT_EQ(pass(), 1);
  w.detach().fill_(2);
  EXPECT_EQ(pass(), 2);
}

TEST(Autocast, LeavesEverythingAsItWas) {
  at::autocast::set_autocast_dtype(kCpu, torch::kFloat16);
  {
    const Autocast outer(kCpu, torch::kBFloat16);
    {
      const Autocast inner(kCpu, torch::kFloat16);
      EXPECT_EQ(at::autocast::get_autocast_dtype(kCpu), torch::kFloat16);
    }
    EXPECT_TRUE(at::autocast::is_autocast_enabled(kCpu));
    EXPECT_EQ(at::autocast::get_autocast_dtype(kCpu), torch::kBFloat16);
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(kCpu));
  EXPECT_EQ(at::autocast::get_autocast_dtype(kCpu), torch::kFloat16);
  const Autocast none(kCpu, autocast_type("f32"));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(kCpu));
}

}  // namespace
}  // namespace paceline
