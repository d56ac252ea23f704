#include "paceline/serving/flat_model.h"

#include <gmock/gmock.h>

#include "paceline/gradients/batch_statistics.h"
#include "paceline/models/initialise.h"
#include "paceline/models/state.h"

namespace paceline {
namespace {

std::shared_ptr<Model> model_with(uint64_t seed) {
  auto model = make_model(builtin_models(), "resnet20", {.classes = 10, .channels = 3, .image_size = 32});
  initialise(*model, "kaiming", seed);
  return model;
}

TEST(FlatModel, WeightsComeBackToTheBit) {
  FlatModel one(model_with(1)), other(model_with(2));
  EXPECT_NE(weights_sha256(one.model()), weights_sha256(other.model()));
  other.load(one.weights());
  EXPECT_EQ(weights_sha256(one.model()), weights_sha256(other.model()));
}

TEST(FlatModel, GradientsLieWhereTheirParametersDo) {
  const FlatModel flat(model_with(1));
  flat.parameters()[0].tensor.mutable_grad() = torch::ones_like(flat.parameters()[0].tensor);
  std::vector<float> gradient(flat.count(), 7);
  flat.gather_gradient(gradient);
  const auto first = static_cast<size_t>(flat.parameters()[0].tensor.numel());
  EXPECT_EQ(std::count(gradient.begin(), gradient.begin() + static_cast<long>(first), 1.0f), first);
  EXPECT_EQ(std::count(gradient.begin() + static_cast<long>(first), gradient.end(), 0.0f), flat.count() - first);
}

struct Averages {
  float batches, mean, variance;
};

std::vector<float> statistics_of(FlatModel& flat, const Averages& averages) {
  for (const auto& [name, tensor] : batch_statistics(flat.model()))
    tensor.fill_(name.ends_with("running_var")    ? averages.variance
                 : name.ends_with("running_mean") ? averages.mean
                                                  : averages.batches);
  return flat.statistics();
}

void expect_statistics(FlatModel& flat, double mean, double variance) {
  for (const auto& [name, tensor] : batch_statistics(flat.model())) {
    if (name.ends_with("running_mean")) {
      EXPECT_NEAR(tensor[0].item<float>(), mean, 1e-5) << name;
    }
    if (name.ends_with("running_var")) {
      EXPECT_NEAR(tensor[0].item<float>(), variance, 1e-5) << name;
    }
  }
}

// Two workers that have seen different halves: what is evaluated has the statistics of both.
TEST(FlatModel, MeanStatisticsAreThoseOfAllSamples) {
  FlatModel flat(model_with(1));
  const std::vector<float> one = statistics_of(flat, {1000, 1, 4}), other = statistics_of(flat, {1000, 3, 6});
  flat.load_mean_statistics({one, other});
  expect_statistics(flat, 2, 6);  // 5, and means 1 to each side
  flat.load_mean_statistics({});
  expect_statistics(flat, 2, 6);
}

// After one batch of mean 2 and variance 5, averages that began with 0 and 1 are 0.2 and 1.4.
TEST(FlatModel, StatisticsOfAWorkerThatHasJustBegunAreNotOfItsStart) {
  FlatModel flat(model_with(1));
  const std::vector<float> old = statistics_of(flat, {1000, 2, 5}), fresh = statistics_of(flat, {1, 0.2f, 1.4f});
  const std::vector<float> nothing = statistics_of(flat, {0, 0, 1});
  flat.load_mean_statistics({old, fresh, nothing});
  expect_statistics(flat, 2, 5);
  flat.load_mean_statistics({nothing});
  expect_statistics(flat, 2, 5);
  for (const auto& [name, tensor] : batch_statistics(flat.model()))
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_GT(tensor.item<int64_t>(), 900) << name;
    }
}

TEST(FlatModel, AWorkerGoesOnWithTheMeansOfACheckpoint) {
  FlatModel flat(model_with(1));
  for (const Averages& young : {Averages{3, 0.5f, 1.5f}, Averages{40, 2, 5}, Averages{0, 0, 1}}) {
    const std::vector<float> own = statistics_of(flat, young);
    flat.load_mean_statistics({own});
    flat.go_on_with_mean_statistics();
    const std::vector<float> back = flat.statistics();
    ASSERT_EQ(back.size(), own.size());
    for (size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(back[i], own[i], 1e-5) << young.batches;
  }
}

}  // namespace
}  // namespace paceline
