#include "paceline/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/core/recipe.h"
#include "paceline/models/initialise.h"
#include "paceline/models/layers.h"
#include "paceline/models/state.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(ParameterCount, IsThePublishedOneAtAThousandClasses) {
  const Registry<ModelInfo> models = builtin_models();
  const std::pair<const char*, int64_t> published[] = {
      {"resnet18", 11'689'512},    {"resnet34", 21'797'672}, {"resnet50", 25'557'032},
      {"resnet101", 44'549'160},   {"vgg16", 138'357'544},   {"vgg16_bn", 138'365'992},
      {"mobilenet_v1", 4'231'976}, {"alexnet", 61'100'840},  {"alexnet_bn", 61'100'840 + 2 * 256},
  };
  for (const auto& [name, count] : published) EXPECT_EQ(parameter_count(*make_model(models, name, {})), count) << name;
}

TEST(ParameterCount, OfSmallResNetsIsThePublishedOneAtTenClasses) {
  const Registry<ModelInfo> models = builtin_models();
  const std::pair<const char*, int64_t> published[] = {{"resnet20", 272'474}, {"resnet18_32px", 11'173'962}};
  for (const auto& [name, count] : published)
    EXPECT_EQ(parameter_count(*make_model(models, name, {.classes = 10, .image_size = 32})), count) << name;
}

TEST(ParameterCount, CountsElementsAndNoBuffers) {
  EXPECT_EQ(parameter_count(torch::nn::Module()), 0);
  torch::nn::Module module;
  module.register_parameter("weight", torch::zeros({3, 5}));
  module.register_buffer("mean", torch::zeros({7}));
  EXPECT_EQ(parameter_count(module), 15);
}

class EveryModelTest : public testing::TestWithParam<std::string> {
 protected:
  EveryModelTest() { at::set_num_threads(1); }  // with images this small, threads only wait for each other
};

// One step at the smallest image, grey and colour, with an odd number of classes: nothing on the way runs out of
// pixels.
TEST_P(EveryModelTest, TrainsAndEvaluatesAtItsSmallestInput) {
  const Registry<ModelInfo> models = builtin_models();
  const int64_t size = models.at(GetParam()).smallest_input;
  for (const int64_t channels : {1, 3}) {
    const auto model =
        make_model(models, GetParam(), {.classes = 7, .channels = channels, .image_size = size, .zero_gamma = false});
    initialise(*model, "kaiming", 1);
    const torch::Tensor images =
        torch::linspace(-1, 1, 2 * channels * size * size).reshape({2, channels, size, size}).sin();
    model->train();
    model->forward(images).square().sum().backward();
    for (const auto& item : model->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
    model->eval();
    torch::NoGradGuard no_grad;
    const torch::Tensor logits = model->forward(images.slice(0, 0, 1));  // one sample: BN needs no batch any more
    EXPECT_EQ(logits.sizes(), at::IntArrayRef({1, 7}));
    EXPECT_TRUE(logits.isfinite().all().item<bool>());
  }
}

TEST_P(EveryModelTest, RefusesASmallerImage) {
  const Registry<ModelInfo> models = builtin_models();
  const int64_t size = models.at(GetParam()).smallest_input - 1;
  EXPECT_THROW(make_model(models, GetParam(), {.image_size = size}), UsageError);
}

// Recipes are refused for a model (core/recipe_effects.h) what it does not have, and nothing else.
TEST_P(EveryModelTest, HasWhatItsRecipesMaySet) {
  const Registry<ModelInfo> models = builtin_models();
  const int64_t size = models.at(GetParam()).smallest_input;
  const auto model = make_model(models, GetParam(), {.classes = 7, .image_size = size, .zero_gamma = true});
  initialise(*model, "kaiming", 1);
  bool normalises = false, has_residual_blocks = false;
  for (const auto& module : model->modules()) {
    const auto* const layer = dynamic_cast<const BatchNorm2d*>(module.get());
    normalises |= layer != nullptr;
    has_residual_blocks |= layer != nullptr && layer->initial_gamma() == 0;
  }
  model->train();
  const torch::NoGradGuard no_grad;
  const torch::Tensor images = torch::linspace(-1, 1, 6 * size * size).reshape({2, 3, size, size}).sin();
  torch::manual_seed(1);
  const torch::Tensor logits = model->forward(images);
  torch::manual_seed(2);
  const bool drops = !logits.equal(model->forward(images));

  const auto is_refused = [](const std::string& key) {
    try {
      parse_recipe("", "r.toml", {"model.name=" + GetParam(), key});
      return false;
    } catch (const RecipeError&) {
      return true;
    }
  };
  EXPECT_EQ(is_refused("model.zero_gamma=true"), !has_residual_blocks);
  EXPECT_EQ(is_refused("batch_norm.statistics=last_iteration"), !normalises);
  EXPECT_EQ(is_refused("model.dropout=0.25"), !drops);
}

TEST_P(EveryModelTest, TakesImagesThatAreNotSquare) {
  const Registry<ModelInfo> models = builtin_models();
  const int64_t height = models.at(GetParam()).smallest_input, width = height + 9;
  const auto model =
      make_model(models, GetParam(), {.classes = 2, .channels = 1, .image_size = height, .image_width = width});
  model->eval();
  const torch::NoGradGuard no_grad;  // weights of any value: it is the shapes that must fit
  EXPECT_EQ(model->forward(torch::ones({1, 1, height, width})).sizes(), at::IntArrayRef({1, 2}));
}

INSTANTIATE_TEST_SUITE_P(Builtin, EveryModelTest, testing::ValuesIn(builtin_models().names()),
                         [](const auto& info) { return info.param; });

// The smallest input of VGG and AlexNet is where torch itself gives up; the refusal must come before that, and not
// sooner.
TEST(SmallestInput, IsWhereThePoolsRunOutOfPixels) {
  const Registry<ModelInfo> models = builtin_models();
  for (const std::string name : {"vgg16", "alexnet"}) {
    const auto model = models.at(name).make({.classes = 2});
    const int64_t size = models.at(name).smallest_input - 1;
    EXPECT_THROW(model->forward(torch::zeros({1, 3, size, size})), c10::Error) << name;
  }
}

TEST(MakeModel, NamesTheModelTheSizesAndWhoWouldTakeTheImages) {
  try {
    make_model(builtin_models(), "alexnet", {.image_size = 28});
    FAIL() << "28 pixels are too few";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'alexnet'"), HasSubstr("28x28"), HasSubstr("63x63"),
                                    HasSubstr("resnet20"), HasSubstr("small_cnn"), Not(HasSubstr("vgg16"))));
  }
}

// The narrower side counts; and a program's own model is square where it does not say otherwise.
TEST(MakeModel, NamesBothSidesOfAnImageThatIsNotSquare) {
  Registry<ModelInfo> models = builtin_models();
  models.add("square", {"for tests", 4, models.at("small_cnn").make});
  const auto told = [&](const std::string& name, int64_t height, int64_t width) -> std::string {
    try {
      make_model(models, name, {.image_size = height, .image_width = width});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(told("resnet18", 28, 16), HasSubstr("the images have 28x16 pixels, but it needs at least 17x17; these "));
  EXPECT_THAT(told("square", 28, 20),
              AllOf(HasSubstr("28x20 pixels, but it needs square ones of at least 4x4"), HasSubstr("small_cnn")));
  EXPECT_EQ(told("square", 28, 28), "");
}

TEST(MakeModel, SuggestsTheNearestName) {
  try {
    make_model(builtin_models(), "resnet81", {});
    FAIL() << "there is no such model";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'resnet18'"));
  }
}

TEST(MakeModel, RefusesNonsense) {
  const Registry<ModelInfo> models = builtin_models();
  EXPECT_THROW(make_model(models, "resnet18", {.classes = 0}), UsageError);
  EXPECT_THROW(make_model(models, "resnet18", {.channels = 0}), UsageError);
  EXPECT_THROW(make_model(models, "vgg16", {.dropout = 1}), UsageError);
}

TEST(Models, CanBeAddedByAProgram) {
  struct Flat : Model {
    torch::Tensor forward(torch::Tensor images) override { return images.flatten(1); }
  };
  Registry<ModelInfo> models = builtin_models();
  models.add("flat", {"no layers", 1, [](const ModelOptions&) { return std::make_shared<Flat>(); }});
  EXPECT_EQ(make_model(models, "flat", {.image_size = 1})->forward(torch::zeros({2, 3, 1, 1})).size(1), 3);
}

// golden_test.cc covers the models that torchvision has; these names are ours to keep.
TEST(Models, KeepTheirNames) {
  const Registry<ModelInfo> models = builtin_models();
  const NamedTensors bn = state_of(*make_model(models, "vgg16_bn", {.classes = 2}));
  EXPECT_TRUE(bn.contains("features.41.running_var"));
  EXPECT_EQ(bn.at("features.40.weight").sizes(), at::IntArrayRef({512, 512, 3, 3}));
  const NamedTensors mobile = state_of(*make_model(models, "mobilenet_v1", {.classes = 2}));
  EXPECT_EQ(mobile.at("features.1.0.weight").sizes(), at::IntArrayRef({32, 1, 3, 3}));
  EXPECT_EQ(mobile.at("features.26.1.weight").sizes(), at::IntArrayRef({1024}));
  const NamedTensors small = state_of(*make_model(models, "resnet20", {.classes = 2}));
  EXPECT_EQ(small.at("layer3.0.downsample.0.weight").sizes(), at::IntArrayRef({64, 32, 1, 1}));
  EXPECT_FALSE(small.contains("layer1.0.downsample.0.weight"));
}

}  // namespace
}  // namespace paceline
