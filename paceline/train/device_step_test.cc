// The step that nobody waits for, beside the one that tells at once; on the CPU both have the same bits.
#include "paceline/train/device_step.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/models/state.h"
#include "paceline/train/assemble.h"

namespace paceline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Recipe recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(
    [model]
    name = "resnet20"
    [data]
    name = "synthetic"
    train_samples = 16
    test_samples = 8
    image_size = 16
    [train]
    threads = 1
  )",
                      "small.toml", overrides);
}

// The same network and data, whichever step trains it.
struct Training {
  explicit Training(const Recipe& given)
      : recipe(given),
        data(open_data(recipe, {})),
        model(build_model(recipe, {}, *data.train)),
        optimizer(build_optimizer(recipe, {}, *model, 1)),
        reducer(build_reducer(recipe, {}, *model, *group, nullptr)),
        scaler(build_loss_scaler(recipe, torch::kCPU)) {
    at::set_num_threads(1);
    model->train();
  }

  StepInputs inputs(int64_t step, bool spoilt = false) const {
    torch::Tensor images = torch::arange(8 * 3 * 256).add(static_cast<double>(step)).sin().view({8, 3, 16, 16});
    if (spoilt) images[5][1][3][7] = kInfinity;
    return {.batch = {images, torch::arange(8), 8, 8},
            .global_count = 8,
            .step = step,
            .epoch = 0.1 * static_cast<double>(step),
            .rate = 0.05 + 0.01 * static_cast<double>(step),
            .momentum = 0.9};
  }

  std::string everything() const {
    std::string bytes = weights_sha256(*model);
    for (const auto& [name, tensor] : optimizer->state()) {
      const torch::Tensor whole = tensor.contiguous();
      bytes += name;
      bytes.append(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
    }
    return bytes;
  }

  Recipe recipe;
  DatasetPair data;
  std::unique_ptr<Group> group = make_local_group();
  std::shared_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Reducer> reducer;
  std::unique_ptr<LossScaler> scaler;
};

void expect_the_steps_of_train_step(const std::vector<std::string>& settings) {
  SCOPED_TRACE(fmt::format("{}", fmt::join(settings, ", ")));
  Training told(recipe(settings)), untold(recipe(settings));
  TrainStep step(told.model, *told.optimizer, *told.group, told.recipe, *told.reducer, nullptr, told.scaler.get());
  DeviceStep device_step(untold.model, *untold.optimizer, untold.recipe, untold.scaler.get());
  for (int64_t i = 0; i < 4; ++i) {
    const StepOutcome expected = step(told.inputs(i)), found = device_step(untold.inputs(i));
    EXPECT_EQ(found.loss_sum.item<float>(), expected.loss_sum.item<float>());
    EXPECT_EQ(found.correct.item<int64_t>(), expected.correct.item<int64_t>());
    EXPECT_EQ(found.samples, 8);
  }
  EXPECT_EQ(untold.everything(), told.everything());
}

TEST(DeviceStep, MakesTheStepsOfTrainStep) {
  for (const std::string optimizer : {"sgd", "lars", "adam", "hybrid"}) {
    for (const std::string scaling : {"none", "dynamic"}) {
      std::vector<std::string> settings = {"optimizer.name=" + optimizer, "precision.loss_scaling=" + scaling};
      if (optimizer == "hybrid") settings.push_back("optimizer.hybrid_epochs=0.25");
      expect_the_steps_of_train_step(settings);
    }
  }
}

TEST(DeviceStep, MakesThemInSeveralPasses) {
  for (const std::string scaling : {"none", "dynamic"}) {
    for (const std::string micro : {"3", "4"}) {  // 3 + 3 + 2, 4 + 4
      const std::vector<std::string> settings = {"batch.micro=" + micro, "precision.loss_scaling=" + scaling};
      expect_the_steps_of_train_step(settings);
      expect_the_steps_of_train_step({settings[0], settings[1], "batch_norm.statistics=last_iteration"});
    }
  }
}

TEST(DeviceStep, ASkippedStepLeavesNothingButASmallerScale) {
  Training run(recipe({"precision.loss_scaling=dynamic", "precision.loss_scale=1024"}));
  DeviceStep step(run.model, *run.optimizer, run.recipe, run.scaler.get());
  step(run.inputs(0));
  const std::string before = run.everything();
  const StepOutcome spoilt = step(run.inputs(1, /*spoilt=*/true));
  EXPECT_GT(spoilt.overflow.item<double>(), 0);
  EXPECT_EQ(run.everything(), before);
  run.scaler->settle();
  EXPECT_EQ(run.scaler->state().scale, 512);
  EXPECT_EQ(run.scaler->state().skipped_steps, 1);
  const StepOutcome clean = step(run.inputs(2));
  EXPECT_EQ(clean.overflow.item<double>(), 0);
  EXPECT_NE(run.everything(), before);
}

TEST(DeviceStep, WithoutAScaleGradientsThatAreNotFiniteDoNotReachTheWeights) {
  Training run(recipe({}));
  DeviceStep step(run.model, *run.optimizer, run.recipe, nullptr);
  step(run.inputs(0));
  const torch::Tensor weights = run.model->parameters()[0].detach().clone();
  EXPECT_GT(step(run.inputs(1, /*spoilt=*/true)).not_finite.item<double>(), 0);
  EXPECT_GT(step(run.inputs(2)).not_finite.item<double>(), 0) << "nor do those after them";
  EXPECT_TRUE(torch::equal(run.model->parameters()[0], weights));
}

TEST(DeviceStep, SaysWhyStepsHaveToWait) {
  const auto why = [](std::vector<std::string> settings, int ranks = 1) {
    settings.insert(settings.end(), {"train.device=cuda"});
    return DeviceStep::why_not(recipe(settings), ranks);
  };
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why({"train.precision=f16"}), "");
  EXPECT_EQ(why({}, 2), "gradients are summed over ranks");
  EXPECT_EQ(why({"batch.micro=4", "batch_norm.statistics=last_iteration"}), "");
  EXPECT_EQ(why({"optimizer.clip_norm=1"}), "optimizer.clip_norm needs the norm of all gradients");
  EXPECT_EQ(DeviceStep::why_not(recipe({}), 1), "they are made on the CPU");
}

}  // namespace
}  // namespace paceline
