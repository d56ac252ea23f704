#include "paceline/optim/weight_average.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"
#include "paceline/optim/sgd.h"
#include "paceline/optim/test_layer.h"

namespace paceline {
namespace {

TEST(WeightAverage, BeginsWithTheFirstWeightsAndFollowsTheOthers) {
  torch::Tensor weight = torch::full({3}, 8.0);
  WeightAverage average({{"weight", weight, true}}, 0.75);
  average.update();
  weight.fill_(16);
  average.update();
  average.swap();
  EXPECT_TRUE((weight == 0.75 * 8 + 0.25 * 16).all().item<bool>());
}

TEST(WeightAverage, IsInThePlaceOfTheWeightsOnlyWhileWanted) {
  TestLayer layer;
  const auto optimizer =
      with_weight_average(std::make_unique<Sgd>(parameters_of(layer), SgdOptions{}), parameters_of(layer), 0.5);
  for (int step = 0; step < 3; ++step) {
    layer.set_gradients(step);
    optimizer->step({.rate = 0.1, .momentum = 0.9});
  }
  const torch::Tensor own = layer.weight.detach().clone(), average = optimizer->state().at("average/weight").clone();
  EXPECT_FALSE(torch::equal(own, average));
  {
    const AveragedWeights swapped(optimizer->weight_average());
    EXPECT_TRUE(torch::equal(layer.weight, average));
    EXPECT_THROW(optimizer->weight_average()->update(), InternalError);
  }
  EXPECT_TRUE(torch::equal(layer.weight, own));
  EXPECT_TRUE(torch::equal(optimizer->state().at("average/weight"), average));
}

TEST(WeightAverage, BeforeTheFirstStepTheWeightsStay) {
  TestLayer layer;
  WeightAverage average(parameters_of(layer), 0.5);
  const torch::Tensor own = layer.weight.detach().clone();
  const AveragedWeights swapped(&average);
  EXPECT_TRUE(torch::equal(layer.weight, own));
}

TEST(WeightAverage, NobodyNeedsToAskWhetherThereIsOne) {
  TestLayer layer;
  Sgd sgd(parameters_of(layer), {});
  const AveragedWeights swapped(sgd.weight_average());
}

}  // namespace
}  // namespace paceline
