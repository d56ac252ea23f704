#include "paceline/train/diagnosis.h"

#include <gmock/gmock.h>
#include <torch/nn.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/models/visible_operation.h"
#include "paceline/optim/optimizer.h"
#include "paceline/train/forward_search.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Divides by nothing in the middle when told to.
class ThreeLayers : public Model {
 public:
  explicit ThreeLayers(const ModelOptions& options) {
    first_ = register_module("first", torch::nn::Linear(64, 16));
    second_ = register_module("second", torch::nn::Linear(16, 16));
    third_ = register_module("third", torch::nn::Linear(16, options.classes));
  }
  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor features = first_(images.flatten(1)).relu();
    const torch::Tensor logits = third_(second_(features).mul(factor).relu());
    return torch::cat({logits.narrow(1, 0, 1) + lead, logits.slice(1, 1)}, 1);
  }
  float factor = 1;
  float lead = 0;  // of the first class: where it is large enough losses add up to infinity, and gradients stay

 private:
  torch::nn::Linear first_ = nullptr, second_ = nullptr, third_ = nullptr;
};

Catalog catalog(float lead = 0) {
  Catalog catalog;
  const auto make = [lead](const ModelOptions& options) {
    const auto model = std::make_shared<ThreeLayers>(options);
    model->lead = lead;
    return model;
  };
  catalog.models.add("three", {"for tests", 8, make});
  return catalog;
}

Recipe recipe(const std::vector<std::string>& overrides = {}) {
  return parse_recipe(R"(
    [model]
    name = "three"
    [data]
    name = "synthetic"
    train_samples = 96
    test_samples = 32
    channels = 1
    image_size = 8
    classes = 4
    [batch]
    global = 32
    [train]
    epochs = 4
    threads = 1
  )",
                      "three.toml", overrides);
}

std::string failure_of(int ranks, const Recipe& recipe, const std::filesystem::path& folder = {}) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Group& group) {
    TrainerOptions options = {.catalog = catalog()};
    if (group.rank() == 0) options.run_folder = {folder};
    try {
      Trainer(recipe, group, options).run();
    } catch (const TrainingError& error) {
      errors[static_cast<size_t>(group.rank())] = error.what();
      EXPECT_EQ(error.told(), group.rank() != 0);  // one tells
    }
  });
  for (const std::string& error : errors) EXPECT_FALSE(error.empty());
  return errors.front();
}

TEST(ForwardSearch, NamesTheFirstLayerWhoseOutputIsNotFinite) {
  const auto model = std::make_shared<ThreeLayers>(ModelOptions{.classes = 4});
  torch::Tensor images = torch::ones({2, 1, 8, 8});
  const auto search = [&] { return first_layer_not_finite(*model, [&] { model->forward(images); }); };
  EXPECT_EQ(search(), std::nullopt);
  model->factor = kInfinity;
  EXPECT_EQ(search(), "second");
  model->factor = 1;
  const torch::NoGradGuard no_grad;
  model->named_parameters()["third.weight"].fill_(NAN);
  EXPECT_EQ(search(), "third");
  images[1][0][0][0] = NAN;
  EXPECT_EQ(search(), "the input");  // flatten() comes before the first layer
}

// As the fused operations of a GPU are: libtorch sees at most the memory that it asks for.
class OwnOperation : public Model {
 public:
  OwnOperation() {
    for (const char* name : {"first", "own", "last"})
      register_module(name, torch::nn::Linear(torch::nn::LinearOptions(3, 3).bias(false)))->weight.detach().fill_(1);
  }
  torch::Tensor forward(torch::Tensor images) override {
    const auto weight = [&](const std::string& name) { return named_parameters()[name + ".weight"]; };
    const torch::Tensor x = torch::linear(images, weight("first"));
    const torch::Tensor y = visible("own::operation", {x, weight("own")}, [&] {
      torch::Tensor output = torch::empty_like(x);
      std::fill_n(output.data_ptr<float>(), output.numel(), value);
      return output;
    });
    return torch::linear(y, weight("last"));
  }
  float value = 1;
};

TEST(ForwardSearch, SeesOperationsOfOurOwn) {
  const auto model = std::make_shared<OwnOperation>();
  const auto search = [&] { return first_layer_not_finite(*model, [&] { model->forward(torch::ones({2, 3})); }); };
  EXPECT_EQ(search(), std::nullopt);
  model->value = kInfinity;
  EXPECT_EQ(search(), "own");
}

TEST(MeasureLayers, GivesNormsAndCountsInTheOrderOfTheModel) {
  torch::Tensor weight = torch::tensor({3.0f, 4.0f}).requires_grad_(), bias = torch::ones({1}).requires_grad_();
  weight.mutable_grad() = torch::tensor({8.0f, kInfinity});
  const auto layers = measure_layers({{"fc.weight", weight, true}, {"fc.bias", bias, false}}, 0.5);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "fc.weight");
  EXPECT_EQ(layers[0].weight_norm, 5);
  EXPECT_EQ(layers[0].gradient_norm, kInfinity);
  EXPECT_EQ(layers[0].gradients_not_finite, 1);
  EXPECT_TRUE(std::isnan(layers[1].gradient_norm));  // it has none
  weight.mutable_grad() = torch::tensor({6.0f, 8.0f});
  EXPECT_EQ(measure_layers({{"fc.weight", weight, true}}, 0.5)[0].gradient_norm, 5);
}

TEST(UpdateDiagnosis, SeesTheUpdateAndTheRateOfLars) {
  torch::Tensor weight = torch::tensor({{3.0f, 4.0f}}).requires_grad_();
  const std::vector<Parameter> parameters = {{"fc.weight", weight, true}};
  weight.mutable_grad() = torch::tensor({{0.6f, 0.8f}});
  Recipe::Optimizer options;
  options.name = "lars";
  options.eta = 0.01;
  options.epsilon = 0;
  const auto optimizer = builtin_optimizers().at("lars")(parameters, options);
  const StepCoefficients coefficients = {.rate = 2, .momentum = 0, .gradient_scale = 0.5};
  UpdateDiagnosis diagnosis(parameters, options, coefficients, 1);
  optimizer->step(coefficients);
  const LayerFigures layer = diagnosis.finish()[0];
  EXPECT_NEAR(layer.rate, 2 * 0.01 * 5 / 0.5, 1e-6);
  EXPECT_NEAR(layer.update_norm, layer.rate * 0.5, 1e-6);
  EXPECT_NEAR(layer.gradient_norm, 1, 1e-6);
  EXPECT_EQ(layer.weight_norm, 5);
}

TEST(WorstLayers, PutsWhatIsNotFiniteFirst) {
  const std::string text = worst_layers_text({{.name = "calm", .weight_norm = 1, .update_norm = 0.01},
                                              {.name = "wild", .weight_norm = 1, .update_norm = 10},
                                              {.name = "lost", .weight_norm = 1, .weights_not_finite = 3}},
                                             2);
  EXPECT_THAT(text, AllOf(HasSubstr("3 weights"), HasSubstr("wild"), Not(HasSubstr("calm"))));
  EXPECT_LT(text.find("lost"), text.find("wild"));
}

TEST(Diagnosis, IsRecordedForEveryLayer) {
  const TestFolder folder;
  const auto group = make_local_group();
  Trainer(recipe({"train.diagnose_every_steps=5", "optimizer.name=lars", "optimizer.epsilon=0"}), *group,
          {.run_folder = {folder.path()}, .catalog = catalog()})
      .run();
  std::istringstream lines(read_file(folder.path() / "metrics.jsonl"));
  std::vector<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record["kind"] != "layer") continue;
    seen.push_back(std::to_string(record["step"].get<int>()) + " " + record["layer"].get<std::string>());
    EXPECT_GT(record["update_norm"], 0);
    EXPECT_GT(record["gradient_norm"], 0);
    EXPECT_GT(record["rate"], 0);
    EXPECT_EQ(record["weights_not_finite"], 0);
  }
  EXPECT_EQ(seen.size(), 2u * 6u);  // of 12 steps the 5th and the 10th
  EXPECT_EQ(seen.front(), "5 first.weight");
  EXPECT_EQ(seen.back(), "10 third.bias");
}

TEST(Divergence, NamesStepAndLayer) {
  for (const int ranks : {1, 3}) {
    const std::string error = failure_of(ranks, recipe({"optimizer.rate=1e30"}));
    EXPECT_THAT(error, HasSubstr("step 2 (epoch 0.3333): the loss is not finite: the run diverged")) << ranks;
    EXPECT_THAT(error, HasSubstr("second is the first layer whose output is not finite")) << ranks;
    EXPECT_THAT(error, HasSubstr("try a lower optimizer.rate")) << ranks;
  }
}

// Of rank 0; every rank must fail alike.
std::string failure_as_on_device(const std::vector<std::string>& settings, int ranks = 1) {
  std::string told;
  run_ranks(ranks, [&](Group& group) {
    try {
      Trainer(recipe(settings), group, {.catalog = catalog(), .as_on_device = true}).run();
      ADD_FAILURE() << "rank " << group.rank() << " did not fail";
    } catch (const TrainingError& failure) {
      if (group.rank() == 0) told = failure.what();
    }
  });
  return told;
}

// Outcomes are read late; the weights are those of the step that failed, not of those after it.
TEST(Divergence, NamesStepAndLayerWhereNobodyWaits) {
  for (const std::string log_every : {"1", "4", "100"}) {
    for (const int ranks : {1, 2}) {
      const std::string error =
          failure_as_on_device({"optimizer.rate=1e30", "train.log_every_steps=" + log_every}, ranks);
      EXPECT_THAT(error, HasSubstr("step 2 (epoch 0.3333): the loss is not finite: the run diverged")) << log_every;
      EXPECT_THAT(error, HasSubstr("second is the first layer whose output is not finite")) << log_every;
    }
  }
}

TEST(Divergence, ThatOnlyOneRankSeesIsToldByAll) {
  std::vector<std::string> errors(3);
  run_ranks(3, [&](Group& group) {
    const float lead = group.rank() == 1 ? 3e38f : 0;
    try {
      Trainer(recipe({"train.log_every_steps=2"}), group, {.catalog = catalog(lead), .as_on_device = true}).run();
    } catch (const TrainingError& error) {
      errors[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("rank 1, step 1 (epoch 0): the loss is not finite: the run diverged"));
}

// Later steps have changed the weights: to make that one again would tell nothing.
TEST(Divergence, OfALossAloneEndsTheRunOfOneRank) {
  const auto group = make_local_group();
  try {
    Trainer(recipe({"train.log_every_steps=2"}), *group, {.catalog = catalog(3e38f), .as_on_device = true}).run();
    FAIL() << "nothing was thrown";
  } catch (const TrainingError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 1 (epoch 0): the loss is not finite: the run diverged; try"));
  }
}

TEST(Divergence, AfterTooManySkipsNamesTheLayer) {
  for (const int ranks : {1, 2}) {
    const std::string error =
        failure_as_on_device({"optimizer.rate=1e30", "train.log_every_steps=100", "train.epochs=100",
                              "precision.loss_scaling=dynamic", "precision.most_skips=3"},
                             ranks);
    EXPECT_THAT(error, HasSubstr("the run diverged; second is the first layer whose output is not finite")) << ranks;
  }
}

TEST(Divergence, HappensInBf16Too) {
  EXPECT_THAT(failure_of(1, recipe({"optimizer.rate=1e30", "train.precision=bf16"})),
              HasSubstr("second is the first layer whose output is not finite"));
}

TEST(Divergence, LeavesTheLastGoodCheckpoint) {
  const TestFolder folder;
  const std::string error = failure_of(2,
                                       recipe({"schedule.name=step", "schedule.milestones=[1]", "schedule.factor=1e30",
                                               "checkpoint.every_steps=1", "checkpoint.keep=1"}),
                                       folder.path());
  // The fourth step, of the rate 1e29, makes weights that are finite and useless; with the fifth it comes out. The
  // checkpoint of the third is still there, and the next --resume takes it.
  const auto checkpoints = CheckpointStore(folder.path() / "checkpoints", 1).all();
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0].step, 3);
  EXPECT_EQ(damage_of(checkpoints[0]), std::nullopt);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoints" / "diverged-step-00000004"));
  EXPECT_THAT(error, AllOf(HasSubstr("step 5"), HasSubstr("the last checkpoint is " + checkpoints[0].folder.string())));
}

TEST(Divergence, WeightsThatAreNotFiniteAreNotWritten) {
  const TestFolder folder;
  const std::string error = failure_of(2, recipe({"optimizer.rate=1e300", "train.max_steps=1"}),
                                       folder.path());  // the rate is infinite in f32
  EXPECT_THAT(error, AllOf(HasSubstr("step 1"), HasSubstr("first.weight is not finite after the update")));
  EXPECT_TRUE(CheckpointStore(folder.path() / "checkpoints", 1).all().empty());
}

}  // namespace
}  // namespace paceline
