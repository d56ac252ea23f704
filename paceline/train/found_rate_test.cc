// Runs whose steps find their own rate (sync.rate = "barzilai_borwein").
#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/models/layers.h"
#include "paceline/models/state.h"
#include "paceline/train/assemble.h"
#include "paceline/train/test_network.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

Recipe recipe(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), "sync.rate=barzilai_borwein");
  return tiny_recipe("[optimizer]\nrate = 0.1\n[train]\nepochs = 6\nthreads = 1\nlog_every_steps = 1\n", overrides);
}

struct Outcome {
  Summary summary;
  NamedTensors weights;  // of the last rank
};

Outcome train(int ranks, const Recipe& recipe, const std::filesystem::path& folder = {}, bool resume = false) {
  Outcome outcome;
  run_ranks(ranks, [&](Group& group) {
    Trainer trainer(recipe, group, {.run_folder = {folder}, .resume = resume, .catalog = catalog_with_tiny()});
    const Summary summary = trainer.run();
    if (group.rank() != ranks - 1) return;
    outcome.summary = summary;
    for (const auto& [name, tensor] : state_of(trainer.model())) outcome.weights[name] = tensor.clone();
  });
  return outcome;
}

double last_rate(const std::filesystem::path& folder) {
  const std::string lines = read_file(folder / "metrics.jsonl");
  return std::stod(lines.substr(lines.rfind("\"rate\":") + 7));
}

TEST(FoundRate, StartsAThousandTimesApartLeadToAlikeRates) {
  std::vector<double> rates;
  for (const char* start : {"0.003", "0.1", "3"}) {
    const TestFolder folder;
    const Outcome found =
        train(1, recipe({std::string("optimizer.rate=") + start, "train.epochs=4"}), folder.path() / "run");
    EXPECT_GT(found.summary.test_accuracy, 0.9) << start;
    rates.push_back(last_rate(folder.path() / "run"));
  }
  EXPECT_LT(std::ranges::max(rates), 4 * std::ranges::min(rates)) << ::testing::PrintToString(rates);
}

TEST(FoundRate, TheScheduleCountsAsItsShare) {
  const TestFolder folder;
  train(1, recipe({"schedule.name=step", "schedule.milestones=[3]", "schedule.factor=1e-6"}), folder.path() / "run");
  EXPECT_LT(last_rate(folder.path() / "run"), 1e-3);
  EXPECT_GT(last_rate(folder.path() / "run"), 0);
}

TEST(FoundRate, StaysBelowTheMost) {
  const TestFolder folder;
  train(1, recipe({"sync.most_rate=0.11"}), folder.path() / "run");
  EXPECT_LE(last_rate(folder.path() / "run"), 0.11);
  EXPECT_THROW(train(1, recipe({"sync.most_rate=0.09"})), RecipeError);
}

class FoundRateRanksTest : public ::testing::TestWithParam<int> {};

TEST_P(FoundRateRanksTest, AnyNumberOfRanksTrainsAsOne) {
  const Recipe short_one = recipe({"train.epochs=2"});  // curvature is a difference of gradients: rounding grows by it
  const Outcome one = train(1, short_one), several = train(GetParam(), short_one);
  for (const auto& [name, expected] : one.weights)
    EXPECT_LT((several.weights.at(name) - expected).norm().item<double>() / expected.norm().item<double>(), 1e-4)
        << name;
}

TEST_P(FoundRateRanksTest, GoesOnBitForBit) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"optimizer.momentum=0.9", "optimizer.average=0.9", "optimizer.clip_norm=0.5"}}) {
    const TestFolder folder;
    const Outcome whole = train(GetParam(), recipe(more), folder.path() / "whole");
    for (const char* steps : {"3", "10"}) {  // 10: the weights before that step are needed after it
      std::vector<std::string> cut = more;
      cut.push_back(std::string("train.max_steps=") + steps);
      const std::filesystem::path run = folder.path() / steps;
      train(GetParam(), recipe(cut), run);
      const Outcome resumed = train(GetParam(), recipe(more), run, /*resume=*/true);
      EXPECT_EQ(resumed.summary.weights_sha256, whole.summary.weights_sha256) << steps;
      EXPECT_EQ(last_rate(run), last_rate(folder.path() / "whole")) << steps;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, FoundRateRanksTest, ::testing::Values(1, 2, 6));

// A small network with batch normalisation, halfway through a step.
struct Halfway {
  Halfway() {
    torch::manual_seed(1);
    model = std::make_shared<Normalised>();
    parameters = parameters_of(*model);
    for (const Parameter& parameter : parameters) named.push_back({parameter.name, parameter.tensor});
    reducer = std::make_unique<Reducer>(named, *group, ReducerOptions());
    make_gradient();
  }
  struct Normalised : Model {
    Normalised() : norm(register_module("norm", std::make_shared<BatchNorm2d>(3))) {
      norm->reset();
      filter = register_parameter("filter", torch::randn({3, 2, 3, 3}));
    }
    torch::Tensor forward(torch::Tensor images) override {
      return norm->forward(torch::conv2d(images, filter)).relu().flatten(1).sum(1);
    }
    std::shared_ptr<BatchNorm2d> norm;
    torch::Tensor filter;
  };
  void make_gradient() {
    reducer->begin();
    reducer->expect_last_pass();
    model->forward(images).square().sum().backward();
    reducer->finish();
  }
  std::vector<torch::Tensor> weights() const {
    std::vector<torch::Tensor> all;
    for (const Parameter& parameter : parameters) all.push_back(parameter.tensor.detach().clone());
    return all;
  }
  std::vector<torch::Tensor> everything() const {
    std::vector<torch::Tensor> all = weights();
    for (const Parameter& parameter : parameters) all.push_back(parameter.tensor.grad().clone());
    for (const torch::Tensor& buffer : model->buffers()) all.push_back(buffer.clone());
    return all;
  }

  std::unique_ptr<Group> group = make_local_group();
  std::shared_ptr<Normalised> model;
  std::vector<Parameter> parameters;
  std::vector<NamedParameter> named;
  std::unique_ptr<Reducer> reducer;
  torch::Tensor images = torch::randn({4, 2, 5, 5});
};

void expect_the_same(const std::vector<torch::Tensor>& some, const std::vector<torch::Tensor>& others) {
  ASSERT_EQ(some.size(), others.size());
  for (size_t i = 0; i < some.size(); ++i) EXPECT_TRUE(torch::equal(some[i], others[i])) << i;
}

TEST(StepProbes, LeaveEverythingAsItWas) {
  Halfway step;
  StepProbes probes(*step.model, *step.reducer, step.parameters);
  const auto before = step.everything();
  std::vector<torch::Tensor> other = step.weights();
  for (torch::Tensor& weights : other) weights.mul_(1.5);

  const auto gradient = probes.gradient_at(other, [&] { step.make_gradient(); });
  expect_the_same(step.everything(), before);
  EXPECT_FALSE(torch::equal(gradient[0], step.parameters[0].tensor.grad()));

  EXPECT_GT(probes.loss_at(other, [&] { return step.model->forward(step.images).square().sum().item<double>(); }), 0);
  expect_the_same(step.everything(), before);
}

TEST(StepProbes, FindTheStepsOwnGradientAtItsOwnWeights) {
  Halfway step;
  StepProbes probes(*step.model, *step.reducer, step.parameters);
  std::vector<torch::Tensor> own;
  for (const Parameter& parameter : step.parameters) own.push_back(parameter.tensor.grad().clone());
  expect_the_same(probes.gradient_at(step.weights(), [&] { step.make_gradient(); }), own);
}

// An optimizer that asks what its step's samples say where the weights are anyway.
class AsksAgain : public Optimizer {
 public:
  explicit AsksAgain(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {}
  void step(const StepCoefficients& coefficients) override {
    CurvatureRate::Tensors weights;
    for (const Parameter& parameter : parameters_) weights.push_back(parameter.tensor.detach().clone());
    loss = coefficients.probes->probes.loss();
    loss_again = coefficients.probes->probes.loss_at(weights);
    const auto gradients = coefficients.probes->probes.gradient_at(weights);
    for (size_t i = 0; i < parameters_.size(); ++i)
      same_gradients = same_gradients && torch::equal(gradients[i], parameters_[i].tensor.grad());
  }
  State state() const override { return {}; }

  double loss = 0, loss_again = 1;
  bool same_gradients = true;

 private:
  std::vector<Parameter> parameters_;
};

class DropsHalf : public Model {
 public:
  explicit DropsHalf(const ModelOptions& options)
      : layer_(register_module("layer", std::make_shared<Linear>(64, options.classes))) {}
  torch::Tensor forward(torch::Tensor images) override {
    return layer_->forward(drop(images.flatten(1), 0.5, is_training()));
  }

 private:
  std::shared_ptr<Linear> layer_;
};

// The same elements are dropped: or loss and gradient would differ by chance, and the curvature be none.
TEST(StepProbes, SeeTheStepsOwnDropout) {
  Catalog catalog;
  catalog.models.add(
      "tiny", {"for tests", 8, [](const ModelOptions& options) { return std::make_shared<DropsHalf>(options); }});
  const Recipe own = recipe({"batch.micro=3"});
  const DatasetPair data = open_data(own, catalog);
  const auto model = build_model(own, catalog, *data.train);
  model->train();
  const auto group = make_local_group();  // ranks that are threads would share torch's one generator
  AsksAgain optimizer(parameters_of(*model));
  const auto reducer = build_reducer(own, catalog, *model, *group, nullptr);
  TrainStep step(model, optimizer, *group, own, *reducer, nullptr, nullptr);
  for (int64_t number = 0; number < 2; ++number) {
    step.make(
        {.batch = {torch::ones({4, 1, 8, 8}), torch::arange(4), 4, 4}, .global_count = 4, .step = number, .rate = 0.1});
    EXPECT_EQ(optimizer.loss_again, optimizer.loss);
    EXPECT_TRUE(optimizer.same_gradients);
  }
}

}  // namespace
}  // namespace paceline
