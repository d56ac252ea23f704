// Against PyTorch: tests/golden/optimizers.json holds where its optimizers are after 100 steps (make_optimizers.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "paceline/core/file.h"
#include "paceline/optim/optimizer.h"

namespace paceline {
namespace {

// formula() of make_golden.py: numbers in [-1, 1) from a hash of name and index.
torch::Tensor formula(const std::string& name, at::IntArrayRef shape) {
  uint32_t seed = 2166136261u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619u;
  torch::Tensor tensor = torch::empty(shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435769u + seed;
    x = (x ^ (x >> 16)) * 2246822507u;
    x = (x ^ (x >> 13)) * 3266489909u;
    x = x ^ (x >> 16);
    tensor.data_ptr<float>()[i] = (static_cast<float>(x >> 8) - 0x1p23f) * 0x1p-23f;
  }
  return tensor;
}

struct Case {
  const char* golden;
  const char* optimizer;
  double rate;
  double momentum = 0;
  bool nesterov = false;
};

class OptimizerGoldenTest : public ::testing::TestWithParam<Case> {};

TEST_P(OptimizerGoldenTest, IsWherePyTorchIsAfter100Steps) {
  const Case& c = GetParam();
  const std::string text = read_file(PACELINE_SOURCE_DIR "/tests/golden/optimizers.json");
  const auto expected = nlohmann::json::parse(text).at("after_100_steps").at(c.golden).get<std::vector<float>>();
  torch::Tensor weight = formula("weight", {12, 20}).requires_grad_(), bias = formula("bias", {12}).requires_grad_();
  Recipe::Optimizer options;
  options.weight_decay = 0.01;
  options.nesterov = c.nesterov;
  const auto optimizer =
      builtin_optimizers().at(c.optimizer)({{"weight", weight, true}, {"bias", bias, false}}, options);
  for (int step = 0; step < 100; ++step) {
    weight.mutable_grad() = formula("weight gradient " + std::to_string(step), {12, 20});
    bias.mutable_grad() = formula("bias gradient " + std::to_string(step), {12});
    optimizer->step({.rate = c.rate * (1 - step / 200.0), .momentum = c.momentum});
  }
  const torch::Tensor found = torch::cat({weight.detach().flatten(), bias.detach()});
  const torch::Tensor difference = (found - torch::tensor(expected)).abs() / torch::tensor(expected).abs().clamp_min(1);
  EXPECT_LT(difference.max().item<float>(), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, OptimizerGoldenTest,
                         ::testing::Values(Case{"sgd", "sgd", 0.05}, Case{"sgd_momentum", "sgd", 0.05, 0.9},
                                           Case{"sgd_nesterov", "sgd", 0.05, 0.9, true}, Case{"adam", "adam", 0.01},
                                           Case{"adamw", "adamw", 0.01}, Case{"rmsprop", "rmsprop", 0.01},
                                           Case{"rmsprop_momentum", "rmsprop", 0.01, 0.9}),
                         [](const auto& info) { return std::string(info.param.golden); });

}  // namespace
}  // namespace paceline
