#include "paceline/train/trainer.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/models/layers.h"
#include "paceline/models/state.h"
#include "paceline/train/assemble.h"
#include "paceline/train/test_network.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Recipe recipe(const std::vector<std::string>& overrides = {}) {
  return tiny_recipe("[optimizer]\nrate = 0.1\nclip_norm = 5\n[train]\nepochs = 3\nthreads = 1\n", overrides);
}

struct Outcome {
  Summary summary;
  NamedTensors weights;
};

Outcome train(int ranks, const Recipe& recipe, bool as_on_device = false) {
  Outcome outcome;
  run_ranks(ranks, [&](Group& group) {
    Trainer trainer(recipe, group, {.catalog = catalog_with_tiny(), .as_on_device = as_on_device});
    const Summary summary = trainer.run();
    if (group.rank() != ranks - 1) return;  // the last rank's: they must all be the same
    outcome.summary = summary;
    for (const auto& [name, tensor] : state_of(trainer.model())) outcome.weights[name] = tensor.clone();
  });
  return outcome;
}

class TrainerRanksTest : public ::testing::TestWithParam<int> {};

// 100 samples in batches of 32: the last batch of an epoch has 4, so that with 5 ranks or more some have none.
TEST_P(TrainerRanksTest, AnyNumberOfRanksTrainsAsOne) {
  const Outcome one = train(1, recipe()), several = train(GetParam(), recipe());
  EXPECT_EQ(several.summary.steps, one.summary.steps);
  EXPECT_EQ(several.summary.samples, one.summary.samples);
  EXPECT_EQ(several.summary.ranks, GetParam());
  EXPECT_NEAR(several.summary.test_loss, one.summary.test_loss, 1e-5);
  EXPECT_EQ(several.summary.test_accuracy, one.summary.test_accuracy);
  EXPECT_NEAR(several.summary.train_loss, one.summary.train_loss, 1e-5);
  for (const auto& [name, expected] : one.weights) {
    const double difference =
        (several.weights.at(name) - expected).norm().item<double>() / expected.norm().item<double>();
    EXPECT_LT(difference, 1e-5) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrainerRanksTest, ::testing::Values(2, 3, 6));

// As on GPUs. With 6 ranks some have no samples in the last step of an epoch; gradients are clipped; with the last
// settings, the first sums over several ranks overflow.
TEST(TrainerRanks, TrainAlikeWhereNobodyWaitsForAnOutcome) {
  const std::vector<std::string> scaling = {"precision.loss_scaling=dynamic", "precision.loss_scale=1e9",
                                            "comm.codec=fp16"};
  for (const int ranks : {1, 2, 6}) {
    for (const std::vector<std::string>& settings :
         {std::vector<std::string>{}, {"train.diagnose_every_steps=2", "optimizer.average=0.9"}, scaling}) {
      const Outcome told = train(ranks, recipe(settings)), untold = train(ranks, recipe(settings), true);
      EXPECT_EQ(untold.summary.weights_sha256, told.summary.weights_sha256) << ranks;
      EXPECT_EQ(untold.summary.train_loss, told.summary.train_loss) << ranks;
      EXPECT_EQ(untold.summary.test_loss, told.summary.test_loss) << ranks;
      EXPECT_EQ(untold.summary.skipped_steps, told.summary.skipped_steps) << ranks;
      EXPECT_EQ(told.summary.skipped_steps > 0, settings == scaling && ranks > 1);
    }
  }
}

TEST(Trainer, TwoRunsAreBitEqual) {
  EXPECT_EQ(train(1, recipe()).summary.weights_sha256, train(1, recipe()).summary.weights_sha256);
  EXPECT_EQ(train(3, recipe()).summary.weights_sha256, train(3, recipe()).summary.weights_sha256);
}

TEST(Trainer, CountsStepsEpochsAndSamples) {
  const Summary summary = train(1, recipe()).summary;  // an epoch: 32 + 32 + 32 + 4
  EXPECT_EQ(summary.steps, 12);
  EXPECT_EQ(summary.samples, 300);
  EXPECT_EQ(summary.epochs, 3);
  EXPECT_EQ(summary.ending, "epochs");
}

TEST(Trainer, FractionsOfAnEpochCount) {
  const Summary summary = train(1, recipe({"train.epochs=1.5"})).summary;
  EXPECT_EQ(summary.steps, 6);  // 100 samples, then 64, the first multiple of a batch past 50
  EXPECT_EQ(summary.samples, 164);
}

TEST(Trainer, StopsAtTheMostSteps) {
  const Summary summary = train(1, recipe({"train.max_steps=5"})).summary;
  EXPECT_EQ(summary.steps, 5);
  EXPECT_EQ(summary.ending, "max_steps");
}

TEST(Trainer, LocalBatchesMultiplyWithTheRanks) {
  const Summary summary = train(2, recipe({"batch.local=16"})).summary;
  EXPECT_EQ(summary.global_batch, 32);
}

TEST(Trainer, ABatchLargerThanTheDataIsTheData) {
  const Summary summary = train(1, recipe({"batch.global=1000"})).summary;
  EXPECT_EQ(summary.global_batch, 100);
  EXPECT_EQ(summary.steps, 3);
}

TEST(Trainer, LearnsWhatCanBeLearnt) {
  const Summary summary = train(1, recipe({"train.epochs=30"})).summary;
  EXPECT_GT(summary.test_accuracy, 0.9);
}

TEST(Trainer, TrainsWithTheMeanSquaredErrorToo) {
  const Summary summary = train(1, recipe({"train.epochs=30", "loss.name=mse"})).summary;
  EXPECT_GT(summary.test_accuracy, 0.9);
}

TEST(Trainer, AStopRequestEndsTheRunAfterItsStep) {
  const auto group = make_local_group();
  std::stop_source stop;
  stop.request_stop();
  Trainer trainer(recipe(), *group, {.stop = stop.get_token(), .catalog = catalog_with_tiny()});
  const Summary summary = trainer.run();
  EXPECT_EQ(summary.ending, "interrupted");
  EXPECT_EQ(summary.steps, 1);
}

TEST(Trainer, LarsThatHardlyMovesAnythingIsToldOf) {
  const auto lines_with = [](const std::string& eta) {
    std::string lines;
    Log log([&](std::string_view line) { lines += line; });
    const auto group = make_local_group();
    const Recipe lars = recipe({"optimizer.name=lars", "optimizer.rate=0.1", eta, "train.max_steps=1"});
    Trainer(lars, *group, {.log = &log, .catalog = catalog_with_tiny()}).run();
    return lines;
  };
  EXPECT_THAT(lines_with("optimizer.eta=0.001"), HasSubstr("optimizer.eta: LARS will move a layer by 0.0001"));
  EXPECT_THAT(lines_with("optimizer.eta=0.2"), Not(HasSubstr("optimizer.eta")));
}

TEST(Trainer, ALossThatIsNotFiniteSaysWhatToDo) {
  try {
    train(1, recipe({"optimizer.rate=1e20", "optimizer.clip_norm=0"}));
    FAIL() << "nothing was thrown";
  } catch (const TrainingError& error) {
    EXPECT_THAT(error.what(), HasSubstr("try a lower optimizer.rate"));
  }
}

// The last step's weights are finite, and of no use.
TEST(Trainer, ARunThatEndsWithATestLossThatIsNotFiniteHasFailed) {
  try {
    train(1, recipe({"optimizer.rate=1e30", "train.max_steps=1"}));
    FAIL() << "nothing was thrown";
  } catch (const TrainingError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 1 (epoch 0.32): the test loss is not finite: the run diverged"));
  }
}

TEST(Trainer, UnknownNamesAreRefusedAtTheirPlaceInTheRecipe) {
  try {
    train(1, recipe({"model.name=tinny"}));
    FAIL() << "nothing was thrown";
  } catch (const RecipeError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("--set model.name=tinny: model.name: there is no model 'tinny'; did you mean 'tiny'?"));
  }
}

TEST(Trainer, ADeviceThatIsNotThereIsRefused) {
#ifndef PACELINE_CUDA
  EXPECT_THROW(train(1, recipe({"train.device=cuda"})), RecipeError);
#endif
}

// ---- several ranks --------------------------------------------------------------------------------------------------

double largest_difference(const Outcome& one, const Outcome& other) {
  double largest = 0;
  for (const auto& [name, expected] : one.weights) {
    if (!expected.is_floating_point()) continue;  // a counter of batches
    largest =
        std::max(largest, (other.weights.at(name) - expected).norm().item<double>() / expected.norm().item<double>());
  }
  return largest;
}

TEST(TrainerRanks, NeitherOverlapNorBucketsNorAlgorithmsChangeTheResult) {
  const Outcome expected = train(3, recipe());
  for (const auto& overrides : std::vector<std::vector<std::string>>{{"comm.overlap=false"},
                                                                     {"comm.bucket_bytes=64"},
                                                                     {"comm.algorithm=ring"},
                                                                     {"comm.algorithm=recursive_doubling"}})
    EXPECT_LT(largest_difference(expected, train(3, recipe(overrides))), 1e-5) << overrides[0];
}

TEST(TrainerRanks, MicroBatchesAccumulateToTheSameStep) {
  const Outcome expected = train(1, recipe());
  EXPECT_LT(largest_difference(expected, train(1, recipe({"batch.micro=7"}))), 1e-5);
  EXPECT_LT(largest_difference(expected, train(2, recipe({"batch.micro=5"}))), 1e-5);
}

TEST(TrainerRanks, FewerActiveRanksTrainAsAll) {
  EXPECT_LT(largest_difference(train(1, recipe()), train(4, recipe({"batch.fill=16"}))), 1e-5);
}

TEST(TrainerRanks, TheBatchFollowsItsSchedule) {
  const std::vector<std::string> grows = {"batch.global=10", "batch.milestones=[1, 2]", "batch.sizes=[20, 50]"};
  const Outcome one = train(1, recipe(grows)), three = train(3, recipe(grows));
  EXPECT_EQ(one.summary.steps, 10 + 5 + 2);
  EXPECT_EQ(three.summary.steps, 10 + 5 + 2);
  EXPECT_EQ(three.summary.global_batch, 50);
  EXPECT_LT(largest_difference(one, three), 1e-5);
}

TEST(TrainerRanks, CodecsThatLoseLittleTrainAsNone) {
  const Outcome expected = train(2, recipe());
  EXPECT_LT(largest_difference(expected, train(2, recipe({"comm.codec=fp16"}))), 2e-3);
  EXPECT_LT(largest_difference(expected, train(2, recipe({"comm.codec=bf16"}))), 2e-2);
  EXPECT_LT(largest_difference(expected, train(2, recipe({"comm.codec=int8"}))), 2e-2);
}

TEST(TrainerRanks, EveryCodecLearnsAndTwoRunsAreBitEqual) {
  for (const std::string codec : {"fp16", "bf16", "int8", "onebit", "topk", "threshold"}) {
    const std::vector<std::string> overrides = {"comm.codec=" + codec, "train.epochs=30", "optimizer.clip_norm=0"};
    const Outcome outcome = train(2, recipe(overrides));
    EXPECT_GT(outcome.summary.test_accuracy, 0.9) << codec;
    EXPECT_EQ(outcome.summary.weights_sha256, train(2, recipe(overrides)).summary.weights_sha256) << codec;
  }
}

TEST(TrainerRanks, AnAlgorithmThatDoesNotApplyIsRefusedByName) {
  try {
    train(2, recipe({"comm.algorithm=node_aware"}));
    FAIL() << "nothing was thrown";
  } catch (const RecipeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("comm.algorithm: node_aware does not apply to engine local with 2 ranks"));
  }
}

TEST(TrainerRanks, UnknownCodecsAreRefusedByName) {
  try {
    train(2, recipe({"comm.codec=int9"}));
    FAIL() << "nothing was thrown";
  } catch (const RecipeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("comm.codec: there is no codec 'int9'; did you mean 'int8'?"));
  }
}

// ---- convolutions and batch normalisation ---------------------------------------------------------------------------

// Of paceline's own layers; `normalised` says whether batch normalisation is among them.
class TinyCnn : public Model {
 public:
  TinyCnn(const ModelOptions& options, bool normalised) {
    conv_ = register_module("conv", std::make_shared<Conv2d>(ConvShape{options.channels, 6, 3, 1, 1, 1, !normalised}));
    if (normalised) norm_ = register_module("norm", std::make_shared<BatchNorm2d>(6));
    fc_ = register_module("fc", std::make_shared<Linear>(6 * 4 * 4, options.classes));
  }
  torch::Tensor forward(torch::Tensor images) override {
    torch::Tensor features = conv_->forward(images);
    if (norm_) features = norm_->forward(features);
    return fc_->forward(torch::max_pool2d(features.relu(), 2).flatten(1));
  }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
  std::shared_ptr<Linear> fc_;
};

Outcome train_cnn(int ranks, bool normalised, std::vector<std::string> overrides) {
  Catalog with_cnn = catalog_with_tiny();
  with_cnn.models.add("cnn", {"for tests", 8, [&](const ModelOptions& options) {
                                return std::make_shared<TinyCnn>(options, normalised);
                              }});
  overrides.push_back("model.name=cnn");
  overrides.push_back("train.max_steps=20");
  overrides.push_back("train.epochs=8");
  Outcome outcome;
  run_ranks(ranks, [&](Group& group) {
    Trainer trainer(recipe(overrides), group, {.catalog = with_cnn});
    const Summary summary = trainer.run();
    if (group.rank() != ranks - 1) return;
    outcome.summary = summary;
    for (const auto& [name, tensor] : state_of(trainer.model())) outcome.weights[name] = tensor.clone();
  });
  return outcome;
}

TEST(TrainerRanks, TwentyStepsOfASmallCnnAreThoseOfOneRank) {
  const Outcome one = train_cnn(1, false, {});
  ASSERT_EQ(one.summary.steps, 20);
  for (const int ranks : {2, 3, 4}) EXPECT_LT(largest_difference(one, train_cnn(ranks, false, {})), 1e-5) << ranks;
}

// Batches of 25 divide the 100 samples: every rank has some in every step.
TEST(TrainerRanks, SynchronisedBatchNormIsThatOfOneRank) {
  const Outcome one = train_cnn(1, true, {"batch.global=25"});
  const Outcome apart = train_cnn(2, true, {"batch.global=25"});
  const Outcome together = train_cnn(2, true, {"batch.global=25", "batch_norm.sync=true"});
  EXPECT_GT(largest_difference(one, apart), 1e-3);     // each rank normalises over its own samples
  EXPECT_LT(largest_difference(one, together), 1e-4);  // its running statistics too
}

// Also in a step whose gradients need no time at all to travel.
TEST(TrainerRanks, WhatStatisticsTakeToTravelIsCounted) {
  run_ranks(2, [](Group& group) {
    const ModelOptions options = {.classes = 4, .channels = 1, .image_size = 8};
    const auto model = std::make_shared<TinyCnn>(options, /*normalised=*/true);
    int64_t exchange_ns = 0;
    synchronise_batch_norm(recipe({"batch_norm.sync=true"}), *model, group, exchange_ns);
    model->train();
    const torch::Tensor logits = model->forward(torch::randn({3, 1, 8, 8}));
    const int64_t of_forward_ns = exchange_ns;
    EXPECT_GT(of_forward_ns, 0);
    logits.sum().backward();
    EXPECT_GT(exchange_ns, of_forward_ns);
  });
}

TEST(TrainerRanks, StatisticsOfTheLastStepAndRecomputedOnesAreEvaluated) {
  const Summary moving = train_cnn(2, true, {}).summary;
  const Summary last = train_cnn(2, true, {"batch_norm.statistics=last_iteration"}).summary;
  const Summary anew = train_cnn(2, true, {"batch_norm.recompute_batches=3"}).summary;
  EXPECT_EQ(last.train_loss, moving.train_loss);  // training is the same, what is evaluated is not
  EXPECT_EQ(anew.train_loss, moving.train_loss);
  EXPECT_NE(last.test_loss, moving.test_loss);
  EXPECT_NE(anew.test_loss, moving.test_loss);
  EXPECT_NE(last.weights_sha256, anew.weights_sha256);
}

}  // namespace
}  // namespace paceline
