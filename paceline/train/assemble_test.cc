#include "paceline/train/assemble.h"

#include <gmock/gmock.h>
#include <torch/cuda.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Recipe recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(
    [model]
    name = "small_cnn"
    [data]
    name = "synthetic"
    train_samples = 10
    test_samples = 10
    image_size = 8
  )",
                      "assembled.toml", overrides);
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

TEST(OpenDevice, IsTheCpuOnEveryRank) {
  run_ranks(2, [](Group& group) { EXPECT_TRUE(open_device(recipe({}), group).is_cpu()); });
}

TEST(OpenDevice, SaysWhyThereIsNoGpu) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is one";
  for (const int ranks : {1, 2})
    run_ranks(ranks, [](Group& group) {
      EXPECT_THAT(refusal([&] { open_device(recipe({"train.device=cuda"}), group); }),
                  AllOf(HasSubstr("train.device"), HasSubstr("CUDA"), HasSubstr("use device = \"cpu\"")));
    });
}

// The model itself is on the CPU here: it is the recipe that is refused.
TEST(BuildReducer, RefusesCodecsForDevicesOfSeveralRanks) {
  const Recipe packed = recipe({"train.device=cuda", "comm.codec=int8"});
  const Catalog catalog;
  const DatasetPair data = open_data(packed, catalog);
  const auto build = [&](Group& group) {
    const auto model = build_model(packed, catalog, *data.train);
    return refusal([&] { build_reducer(packed, catalog, *model, group, nullptr); });
  };
  run_ranks(2, [&](Group& group) {
    EXPECT_THAT(build(group), AllOf(HasSubstr("comm.codec"), HasSubstr("on the CPU only"), HasSubstr("\"none\"")));
  });
  EXPECT_EQ(build(*make_local_group()), "");  // one rank sends nothing
}

TEST(OpenData, RefusesAugmentationThatDoesNotFitTheImages) {
  const auto refusal = [](const std::string& setting) -> std::string {
    try {
      open_data(parse_recipe("[data]\nname = \"synthetic\"\nimage_size = 28\n", "r.toml", {setting}), Catalog());
    } catch (const RecipeError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("augment.cutout=28"), "");
  EXPECT_EQ(refusal("augment.cutout=29"),
            "--set augment.cutout=29: augment.cutout: 29 pixels do not fit images of 28x28 (at most 28)");
  EXPECT_EQ(refusal("augment.crop_padding=28"),
            "--set augment.crop_padding=28: augment.crop_padding: 28 pixels do not fit images of 28x28 (at most 27)");
}

class OneLayer : public Model {
 public:
  OneLayer()
      : weight(register_parameter("weight", torch::ones({2, 3}))), bias(register_parameter("bias", torch::ones({2}))) {}
  torch::Tensor forward(torch::Tensor images) override { return images.matmul(weight.t()) + bias; }

  torch::Tensor weight, bias;
};

// Weights and biases after a step without gradients: what is left is the decay.
std::pair<float, float> after_a_step(const std::vector<std::string>& overrides) {
  const Recipe recipe = parse_recipe("optimizer.momentum = 0\noptimizer.weight_decay = 0.5", "r.toml", overrides);
  OneLayer layer;
  for (torch::Tensor* tensor : {&layer.weight, &layer.bias}) tensor->mutable_grad() = torch::zeros_like(*tensor);
  build_optimizer(recipe, Catalog(), layer, /*ranks=*/1)->step({.rate = 0.5});
  return {layer.weight.flatten()[0].item<float>(), layer.bias[0].item<float>()};
}

TEST(BuildOptimizer, DecaysNoBiases) { EXPECT_EQ(after_a_step({}), std::pair(0.75f, 1.0f)); }

TEST(BuildOptimizer, DecaysEverythingWhenAskedTo) {
  EXPECT_EQ(after_a_step({"optimizer.decay_all=true"}), std::pair(0.75f, 0.75f));
}

TEST(BuildOptimizer, DecayAllNeedsADecay) {
  EXPECT_THROW(parse_recipe("optimizer.decay_all = true", "r.toml"), RecipeError);
}

}  // namespace
}  // namespace paceline
