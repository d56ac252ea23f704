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

// Two workers that have seen different halves: what is evaluated has the statistics of both.
TEST(FlatModel, MeanStatisticsAreThoseOfAllSamples) {
  FlatModel flat(model_with(1));
  const NamedTensors live = batch_statistics(flat.model());
  const auto set = [&](float mean, float variance) {
    for (const auto& [name, tensor] : live) tensor.fill_(name.ends_with("running_var") ? variance : mean);
    return flat.statistics();
  };
  const std::vector<float> one = set(1, 4), other = set(3, 6);
  flat.load_mean_statistics({one, other});
  for (const auto& [name, tensor] : live) {
    if (name.ends_with("running_mean")) EXPECT_EQ(tensor[0].item<float>(), 2) << name;
    if (name.ends_with("running_var")) EXPECT_EQ(tensor[0].item<float>(), 6) << name;  // 5, and means 1 to each side
  }
  flat.load_mean_statistics({});
  EXPECT_EQ(live.begin()->second.defined(), true);
}

}  // namespace
}  // namespace paceline
