#include "paceline/optim/weight_average.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"
#include "paceline/optim/sgd.h"
#include "paceline/optim/test_layer.h"

namespace paceline {
namespace {

TEST(WeightAverage, BeginsWithTheWeightsBeforeTheFirstStepAndFollowsTheOthers) {
  torch::Tensor weight = torch::full({3}, 8.0);
  WeightAverage average({{"weight", weight, true}}, 0.75);
  for (const double after : {16, 24}) {
    average.begin();
    weight.fill_(after);
    average.update({});
  }
  average.swap();
  EXPECT_TRUE((weight == 0.75 * (0.75 * 8 + 0.25 * 16) + 0.25 * 24).all().item<bool>());
}

TEST(WeightAverage, DoesNotFollowASkippedStep) {
  TestLayer layer, steady;
  const auto averaged = [](TestLayer& of) {
    return with_weight_average(std::make_unique<Sgd>(parameters_of(of), SgdOptions{}), parameters_of(of), 0.5);
  };
  const auto skipping = averaged(layer), expected = averaged(steady);
  for (int step = 0; step < 4; ++step) {  // the first one is skipped, and the third
    for (TestLayer* each : {&layer, &steady}) each->set_gradients(step);
    StepCoefficients coefficients = {.rate = 0.1, .momentum = 0.9};
    if (step % 2 == 1) expected->step(coefficients);
    coefficients.found_inf = torch::full({}, step % 2 == 0 ? 1.0f : 0.0f);
    skipping->step(coefficients);
  }
  for (const auto& [name, tensor] : expected->state())
    EXPECT_TRUE(torch::equal(tensor, skipping->state().at(name))) << name;
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
    EXPECT_THROW(optimizer->weight_average()->update({}), InternalError);
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
