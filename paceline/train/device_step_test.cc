// The step that nobody waits for, beside the one that tells at once; on the CPU both have the same bits.
#include "paceline/train/device_step.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "paceline/collectives/test_host_communicator.h"
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

// The same network and data, whichever step trains it. On several ranks: `communicator` as in ReducerOptions.
struct Training {
  using Communicator = std::function<std::unique_ptr<DeviceCommunicator>(Group&)>;

  Training(const Recipe& given, Group& ranks, const Communicator& communicator = nullptr)
      : recipe(given),
        group(ranks),
        data(open_data(recipe, {})),
        model(build_model(recipe, {}, *data.train)),
        optimizer(build_optimizer(recipe, {}, *model, group.size())),
        scaler(build_loss_scaler(recipe, torch::kCPU)) {
    at::set_num_threads(1);
    model->train();
    std::vector<NamedParameter> parameters;
    for (const Parameter& parameter : parameters_of(*model)) parameters.push_back({parameter.name, parameter.tensor});
    ReducerOptions options;
    options.communicator = communicator;
    reducer = std::make_unique<Reducer>(parameters, group, std::move(options));
  }

  TrainStep told() { return {model, *optimizer, group, recipe, *reducer, nullptr, scaler.get()}; }
  DeviceStep untold() { return {model, *optimizer, recipe, *reducer, scaler.get()}; }

  // This rank's share of a step of 8 samples.
  StepInputs inputs(int64_t step, bool spoilt = false) const {
    torch::Tensor images = torch::arange(8 * 3 * 256).add(static_cast<double>(step)).sin().view({8, 3, 16, 16});
    if (spoilt) images[5][1][3][7] = kInfinity;
    return share({.batch = {images, torch::arange(8), 8, 8},
                  .global_count = 8,
                  .step = step,
                  .rank = group.rank(),
                  .epoch = 0.1 * static_cast<double>(step),
                  .rate = 0.05 + 0.01 * static_cast<double>(step),
                  .momentum = 0.9});
  }

  // The last rank has nothing in a step whose number is 2; in the others all have as many.
  StepInputs share(StepInputs whole) const {
    const int64_t sharers = whole.step == 2 && group.size() > 1 ? group.size() - 1 : group.size();
    const int64_t count = group.rank() < sharers ? 8 / sharers : 0, begin = count * group.rank();
    whole.batch.images = whole.batch.images.narrow(0, begin, count);
    whole.batch.labels = whole.batch.labels.narrow(0, begin, count);
    whole.batch.count = static_cast<size_t>(count);
    whole.global_count = sharers * (8 / sharers);
    return whole;
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
  Group& group;
  DatasetPair data;
  std::shared_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<LossScaler> scaler;
  std::unique_ptr<Reducer> reducer;
};

void expect_the_steps_of_train_step(const std::vector<std::string>& settings, Group& group,
                                    const Training::Communicator& communicator = nullptr) {
  SCOPED_TRACE(fmt::format("{} on {} ranks", fmt::join(settings, ", "), group.size()));
  Training told(recipe(settings), group, communicator), untold(recipe(settings), group, communicator);
  TrainStep step = told.told();
  DeviceStep device_step = untold.untold();
  for (int64_t i = 0; i < 4; ++i) {
    const StepOutcome expected = step.make(told.inputs(i)), found = device_step(untold.inputs(i));
    EXPECT_EQ(found.loss_sum.item<float>(), expected.loss_sum.item<float>());
    EXPECT_EQ(found.correct.item<int64_t>(), expected.correct.item<int64_t>());
    EXPECT_EQ(found.samples, expected.samples);
  }
  EXPECT_EQ(untold.everything(), told.everything());
}

void expect_the_steps_of_train_step(const std::vector<std::string>& settings) {
  expect_the_steps_of_train_step(settings, *make_local_group());
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

TEST(DeviceStep, ClipsWhereTheGradientsAre) {
  for (const std::string scaling : {"none", "dynamic"})
    for (const std::string norm : {"0.01", "1e6"})  // shortened, left as they are
      expect_the_steps_of_train_step({"optimizer.clip_norm=" + norm, "precision.loss_scaling=" + scaling});
}

TEST(DeviceStep, AveragesTheWeights) {
  for (const std::string scaling : {"none", "dynamic"})
    expect_the_steps_of_train_step({"optimizer.average=0.9", "precision.loss_scaling=" + scaling});
}

// By the CPU's way of summing, and by that of devices. In one of the steps a rank has no samples.
TEST(DeviceStep, MakesThemOverRanks) {
  const auto devices = [](Group& group) { return HostCommunicator::over(group); };
  for (const std::string scaling : {"none", "dynamic"}) {
    for (const std::string further : {"optimizer.name=lars", "batch.micro=2", "optimizer.clip_norm=0.01"}) {
      run_ranks(2, [&](Group& group) {
        const std::vector<std::string> settings = {further, "precision.loss_scaling=" + scaling};
        expect_the_steps_of_train_step(settings, group);
        expect_the_steps_of_train_step(settings, group, devices);
      });
    }
  }
}

TEST(DeviceStep, SomeRanksMayTakeTheOther) {
  run_ranks(3, [](Group& group) {
    const std::vector<std::string> settings = {"precision.loss_scaling=dynamic", "precision.loss_scale=1024"};
    Training all_told(recipe(settings), group), mixed(recipe(settings), group);
    TrainStep step = all_told.told(), told = mixed.told();
    DeviceStep untold = mixed.untold();
    for (int64_t i = 0; i < 6; ++i) {
      const bool spoilt = i == 3;  // on one of the ranks
      step.make(all_told.inputs(i, spoilt));
      if ((i + group.rank()) % 2 == 0) {
        untold(mixed.inputs(i, spoilt));
        mixed.scaler->settle();
      } else {
        told.make(mixed.inputs(i, spoilt));
      }
    }
    EXPECT_EQ(mixed.everything(), all_told.everything());
    EXPECT_EQ(mixed.scaler->state(), all_told.scaler->state());
    EXPECT_EQ(mixed.scaler->state().skipped_steps, 1);
  });
}

TEST(DeviceStep, AllRanksHearOfAWishToStop) {
  run_ranks(2, [](Group& group) {
    Training run(recipe({}), group);
    DeviceStep step = run.untold();
    std::stop_source source;
    StepInputs inputs = run.inputs(0);
    inputs.stop = source.get_token();
    EXPECT_FALSE(step(inputs).stop_asked);
    if (group.rank() == 1) source.request_stop();
    EXPECT_TRUE(step(inputs).stop_asked);
  });
}

const std::vector<std::vector<std::string>> kEveryOptimizer = {
    {"optimizer.name=sgd"},
    {"optimizer.name=lars"},
    {"optimizer.name=lars", "optimizer.momentum_correction=true"},
    {"optimizer.name=adam"},
    {"optimizer.name=adamw"},
    {"optimizer.name=rmsprop"},
    {"optimizer.name=adabound"},
    {"optimizer.name=hybrid", "optimizer.hybrid_epochs=0.25"},
    {"optimizer.average=0.5"}};

std::vector<std::string> with_loss_scale(std::vector<std::string> settings) {
  settings.insert(settings.end(), {"precision.loss_scaling=dynamic", "precision.loss_scale=1024"});
  return settings;
}

// Where bias corrections and bounds are, they are those of the steps that were made.
TEST(DeviceStep, SkippedStepsAreNotCounted) {
  for (const auto& optimizer : kEveryOptimizer) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(optimizer, ", ")));
    const auto group = make_local_group();
    Training told(recipe(with_loss_scale(optimizer)), *group), untold(recipe(with_loss_scale(optimizer)), *group);
    TrainStep step = told.told();
    DeviceStep device_step = untold.untold();
    for (int64_t i = 0; i < 6; ++i) {
      const bool spoilt = i == 0 || i == 3;
      step.make(told.inputs(i, spoilt));
      device_step(untold.inputs(i, spoilt));
    }
    untold.scaler->settle();
    EXPECT_EQ(untold.scaler->state().skipped_steps, 2);
    EXPECT_EQ(untold.everything(), told.everything());
  }
}

TEST(DeviceStep, ASkippedStepLeavesNothingButASmallerScale) {
  for (const int ranks : {1, 2}) {  // of two, one has the sample that overflows
    for (const auto& optimizer : kEveryOptimizer)
      run_ranks(ranks, [&](Group& group) {
        SCOPED_TRACE(fmt::format("{}", fmt::join(optimizer, ", ")));
        Training run(recipe(with_loss_scale(optimizer)), group);
        DeviceStep step = run.untold();
        step(run.inputs(0));
        const std::string before = run.everything();
        const StepOutcome spoilt = step(run.inputs(1, /*spoilt=*/true));
        EXPECT_GT(spoilt.overflow.item<double>(), 0);
        EXPECT_EQ(run.everything(), before);
        run.scaler->settle();
        EXPECT_EQ(run.scaler->state().scale, 512);
        EXPECT_EQ(run.scaler->state().skipped_steps, 1);
        const StepOutcome clean = step(run.inputs(3));
        EXPECT_EQ(clean.overflow.item<double>(), 0);
        EXPECT_NE(run.everything(), before);
      });
  }
}

TEST(DeviceStep, WithoutAScaleGradientsThatAreNotFiniteDoNotReachTheWeights) {
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [](Group& group) {
      Training run(recipe({}), group);
      DeviceStep step = run.untold();
      step(run.inputs(0));
      const torch::Tensor weights = run.model->parameters()[0].detach().clone();
      EXPECT_GT(step(run.inputs(1, /*spoilt=*/true)).not_finite.item<double>(), 0);
      EXPECT_GT(step(run.inputs(2)).not_finite.item<double>(), 0) << "nor do those after them";
      EXPECT_TRUE(torch::equal(run.model->parameters()[0], weights));
    });
  }
}

TEST(DeviceStep, SaysWhyStepsHaveToWait) {
  const auto why = [](std::vector<std::string> settings, int ranks = 1) {
    settings.insert(settings.end(), {"train.device=cuda"});
    return DeviceStep::why_not(recipe(settings), ranks);
  };
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why({"train.precision=f16"}), "");
  EXPECT_EQ(why({}, 2), "");
  EXPECT_EQ(why({"batch_norm.sync=true"}), "");
  EXPECT_EQ(why({"batch_norm.sync=true"}, 2), "batch_norm.sync exchanges statistics between hosts");
  EXPECT_EQ(why({"batch.micro=4", "batch_norm.statistics=last_iteration"}), "");
  EXPECT_EQ(why({"optimizer.clip_norm=1", "optimizer.average=0.9"}), "");
  EXPECT_EQ(DeviceStep::why_not(recipe({}), 1), "they are made on the CPU");
}

}  // namespace
}  // namespace paceline
