// Training without a server whose ranks are not in step: local SGD and stale-synchronous all-reduce.
#include "paceline/train/strategies/step_strategy.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/models/state.h"
#include "paceline/train/assemble.h"
#include "paceline/train/test_network.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Recipe recipe(const std::vector<std::string>& overrides = {}) {
  return tiny_recipe("[optimizer]\nrate = 0.1\nweight_decay = 1e-3\n[train]\nepochs = 3\nthreads = 1\n", overrides);
}

std::vector<std::string> local(int64_t interval, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"sync.policy=local_sgd", fmt::format("sync.interval={}", interval)});
  return more;
}

std::vector<std::string> stale(int64_t staleness, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"sync.policy=stale_allreduce", fmt::format("sync.staleness={}", staleness)});
  return more;
}

struct Outcome {
  Summary summary;
  NamedTensors weights;  // of the last rank
};

struct Way {
  std::filesystem::path folder;
  bool resume = false;
  bool stop = false;  // asked for from the first step on
};

Outcome train(int ranks, const std::vector<std::string>& overrides, const Way& way = {}) {
  Outcome outcome;
  std::vector<std::string> hashes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Group& group) {
    std::stop_source stop;
    if (way.stop && group.rank() == ranks - 1) stop.request_stop();  // one is enough
    Trainer trainer(
        recipe(overrides), group,
        {.run_folder = {way.folder}, .resume = way.resume, .stop = stop.get_token(), .catalog = catalog_with_tiny()});
    const Summary summary = trainer.run();
    hashes[static_cast<size_t>(group.rank())] = summary.weights_sha256;
    if (group.rank() != ranks - 1) return;
    outcome.summary = summary;
    for (const auto& [name, tensor] : state_of(trainer.model())) outcome.weights[name] = tensor.clone();
  });
  for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes.front());  // all ranks end with one model
  return outcome;
}

double largest_difference(const Outcome& one, const Outcome& other) {
  double largest = 0;
  for (const auto& [name, expected] : one.weights)
    largest =
        std::max(largest, (other.weights.at(name) - expected).norm().item<double>() / expected.norm().item<double>());
  return largest;
}

std::string refusal(int ranks, const std::vector<std::string>& overrides, const Way& way = {}) {
  try {
    train(ranks, overrides, way);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "nothing was refused";
}

// ---- local SGD ------------------------------------------------------------------------------------------------------

TEST(LocalSgd, AveragingAfterEveryStepIsAllReduceTraining) {
  const Outcome together = train(1, {});
  for (const int ranks : {2, 3, 6}) {
    const Outcome alone = train(ranks, local(1));
    EXPECT_LT(largest_difference(together, alone), 1e-5) << ranks;
    EXPECT_EQ(alone.summary.steps, 12);
    EXPECT_EQ(alone.summary.samples, 300);  // every sample of three epochs
    EXPECT_NEAR(alone.summary.train_loss, together.summary.train_loss, 1e-5);
  }
}

TEST(LocalSgd, RanksThatTrainAloneForLongerEndElsewhereButTogether) {
  const Outcome together = train(2, {}), alone = train(2, local(3));
  EXPECT_GT(largest_difference(together, alone), 1e-4);
  EXPECT_EQ(alone.summary.samples, 300);
  EXPECT_GT(alone.summary.costs.communication_per_step_s, 0);
  EXPECT_GT(alone.summary.costs.waiting_per_step_s, 0);
}

TEST(LocalSgd, OfOneRankIsPlainTraining) {
  EXPECT_EQ(train(1, local(4)).summary.weights_sha256, train(1, {}).summary.weights_sha256);
}

TEST(LocalSgd, LearnsWithEveryOptimizer) {
  for (const std::string name : {"sgd", "adamw", "lars", "hybrid"}) {
    std::vector<std::string> keys = {"optimizer.name=" + name, "train.epochs=30"};
    if (name == "adamw") keys.push_back("optimizer.rate=0.01");
    if (name == "lars") keys.push_back("optimizer.rate=5");
    if (name == "hybrid") keys.insert(keys.end(), {"optimizer.hybrid_epochs=1.5", "optimizer.rate=5"});
    EXPECT_GT(train(2, local(4, keys)).summary.test_accuracy, 0.9) << name;
  }
}

TEST(LocalSgd, AStopIsAgreedUponWhenReplicasMeetAndTheRunGoesOnToTheBit) {
  const TestFolder folder;
  const std::vector<std::string> keys = local(5, {"train.log_every_steps=2", "optimizer.average=0.5"});
  const Outcome whole = train(3, keys);
  const Outcome cut = train(3, keys, {.folder = folder.path() / "run", .stop = true});
  EXPECT_EQ(cut.summary.ending, "interrupted");
  EXPECT_EQ(cut.summary.steps, 4);  // an epoch's end, where a checkpoint is due, comes before the fifth step
  const Outcome again = train(3, keys, {.folder = folder.path() / "run", .resume = true});
  EXPECT_EQ(again.summary.steps, 12);
  EXPECT_EQ(again.summary.weights_sha256, whole.summary.weights_sha256);
  EXPECT_EQ(again.summary.train_loss, whole.summary.train_loss);
}

TEST(LocalSgd, WhatDoesNotGoIsRefused) {
  EXPECT_THAT(refusal(2, local(4, {"precision.loss_scaling=static"})),
              AllOf(HasSubstr("precision.loss_scaling"), HasSubstr("every rank would have a scale of its own"),
                    HasSubstr("sync.policy = \"local_sgd\"")));
  EXPECT_THAT(refusal(2, local(4, {"comm.codec=int8"})),
              AllOf(HasSubstr("comm.codec"), HasSubstr("parameters travel")));
  EXPECT_THAT(refusal(2, local(4, {"batch_norm.sync=true"})), HasSubstr("batch_norm.sync"));
  EXPECT_THAT(refusal(2, local(4, {"comm.algorithm=node_aware"})),
              HasSubstr("comm.algorithm: node_aware does not apply to engine local with 2 ranks"));
  EXPECT_THAT(refusal(2, {"sync.interval=4"}), HasSubstr("sync.interval"));  // for policies that have one
}

// ---- stale-synchronous all-reduce -----------------------------------------------------------------------------------

TEST(StaleAllReduce, WithoutStalenessIsAllReduceTraining) {
  const Outcome expected = train(1, {"optimizer.clip_norm=0.5"});
  for (const int ranks : {1, 3, 6})
    EXPECT_LT(largest_difference(expected, train(ranks, stale(0, {"optimizer.clip_norm=0.5"}))), 1e-5) << ranks;
}

TEST(StaleAllReduce, AnyNumberOfRanksTrainsAsOne) {
  const Outcome one = train(1, stale(2));
  EXPECT_EQ(one.summary.samples, 300);
  for (const int ranks : {2, 3, 6}) {
    const Outcome several = train(ranks, stale(2));
    EXPECT_LT(largest_difference(one, several), 1e-5) << ranks;
    EXPECT_EQ(several.summary.samples, 300);
  }
  EXPECT_LT(largest_difference(one, train(2, stale(2, {"comm.overlap=false"}))), 1e-5);
  EXPECT_GT(largest_difference(one, train(1, {})), 1e-3);
}

// Every sum is applied, those at the end too: a plain loop over the same batches with a list of gradients.
TEST(StaleAllReduce, AppliesTheGradientsOfSoManyStepsBefore) {
  constexpr int64_t kSteps = 7, kStaleness = 2, kSamples = 6, kRanks = 2;
  constexpr double kRate = 0.2, kMomentum = 0.9;
  const torch::Tensor images = torch::linspace(-1, 1, kSteps * kSamples * 64).sin().view({kSteps, kSamples, 1, 8, 8});
  const torch::Tensor labels = (torch::arange(kSteps * kSamples) % 4).view({kSteps, kSamples});
  const Recipe late = recipe(stale(kStaleness, {"optimizer.weight_decay=0"}));
  const DatasetPair data = open_data(late, catalog_with_tiny());

  // A share of 4 and one of 2: a mean over samples, not over ranks.
  NamedTensors found;
  run_ranks(kRanks, [&](Group& group) {
    const auto model = build_model(late, catalog_with_tiny(), *data.train);
    const auto optimizer = build_optimizer(late, catalog_with_tiny(), *model, kRanks);
    const Catalog catalog = catalog_with_tiny();
    LoneDivergence divergence(group);
    const auto strategy = make_step_strategy({.recipe = late,
                                              .catalog = catalog,
                                              .model = model,
                                              .optimizer = *optimizer,
                                              .group = group,
                                              .divergence = divergence});
    strategy->begin();
    const int64_t begin = group.rank() == 0 ? 0 : 4, count = group.rank() == 0 ? 4 : 2;
    StepInputs inputs = {.global_count = kSamples, .rate = kRate, .momentum = kMomentum};
    for (int64_t i = 0; i < kSteps; ++i) {
      inputs.batch = {images[i].narrow(0, begin, count), labels[i].narrow(0, begin, count), static_cast<size_t>(count),
                      kSamples};
      inputs.step = i;
      strategy->maker().make(inputs);
    }
    EXPECT_EQ(strategy->under_way()->under_way(), static_cast<uint64_t>(kStaleness));
    strategy->apply_rest(inputs);
    EXPECT_EQ(strategy->under_way()->under_way(), 0u);
    if (group.rank() == 1)
      for (const auto& [name, tensor] : state_of(*model)) found[name] = tensor.clone();
  });

  const auto model = build_model(late, catalog_with_tiny(), *data.train);
  const std::vector<torch::Tensor> parameters = model->parameters();
  std::vector<std::vector<torch::Tensor>> gradients;
  std::vector<torch::Tensor> velocity;
  for (const torch::Tensor& parameter : parameters) velocity.push_back(torch::zeros_like(parameter));
  const auto apply = [&](const std::vector<torch::Tensor>& gradient) {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      velocity[i] = kMomentum * velocity[i] + gradient[i];
      parameters[i].add_(velocity[i], -kRate);
    }
  };
  for (int64_t i = 0; i < kSteps; ++i) {
    gradients.push_back(torch::autograd::grad(
        {torch::nn::functional::cross_entropy(model->forward(images[i]), labels[i])}, parameters));
    if (i >= kStaleness) apply(gradients[static_cast<size_t>(i - kStaleness)]);
  }
  for (int64_t i = kSteps - kStaleness; i < kSteps; ++i) apply(gradients[static_cast<size_t>(i)]);
  for (const auto& [name, expected] : state_of(*model))
    EXPECT_LT((found.at(name) - expected).norm().item<double>() / expected.norm().item<double>(), 1e-5) << name;
}

TEST(StaleAllReduce, AStopIsHeardWithTheSumsAndTheRunGoesOnToTheBit) {
  for (const int ranks : {1, 3}) {
    const TestFolder folder;
    const std::vector<std::string> keys = stale(2, {"train.log_every_steps=2"});
    const Outcome whole = train(ranks, keys);
    const Outcome cut = train(ranks, keys, {.folder = folder.path() / "run", .stop = true});
    EXPECT_EQ(cut.summary.ending, "interrupted");
    EXPECT_EQ(cut.summary.steps, 3);  // the first step's sum
    const Outcome again = train(ranks, keys, {.folder = folder.path() / "run", .resume = true});
    EXPECT_EQ(again.summary.steps, 12);
    EXPECT_EQ(again.summary.weights_sha256, whole.summary.weights_sha256);
    EXPECT_EQ(again.summary.train_loss, whole.summary.train_loss);
  }
}

TEST(StaleAllReduce, GoesOnWithOtherRanksAndLosesNoGradient) {
  const TestFolder folder;
  const Outcome whole = train(1, stale(3));
  train(3, stale(3), {.folder = folder.path() / "run", .stop = true});
  EXPECT_THAT(refusal(2, {}, {.folder = folder.path() / "run", .resume = true}),
              AllOf(HasSubstr("sync.policy"), HasSubstr("gradients of 3 steps are under way")));
  EXPECT_THAT(refusal(2, stale(2), {.folder = folder.path() / "run", .resume = true}),
              AllOf(HasSubstr("sync.staleness"), HasSubstr("sync.staleness = 3 or more")));
  const Outcome other = train(2, stale(3), {.folder = folder.path() / "run", .resume = true});
  EXPECT_LT(largest_difference(whole, other), 1e-5);
}

TEST(StaleAllReduce, WhatDoesNotGoIsRefused) {
  EXPECT_THAT(refusal(2, stale(1, {"precision.loss_scaling=static"})),
              AllOf(HasSubstr("precision.loss_scaling"), HasSubstr("sync.policy = \"stale_allreduce\"")));
  EXPECT_THAT(refusal(2, stale(1, {"comm.codec=int8"})),
              AllOf(HasSubstr("comm.codec"), HasSubstr("gradients travel as they are; use \"none\"")));
  EXPECT_THAT(refusal(2, stale(1, {"batch_norm.sync=true"})), HasSubstr("batch_norm.sync"));
  EXPECT_THAT(refusal(2, stale(1, {"comm.algorithm=rings"})), HasSubstr("comm.algorithm"));
}

// ---- both, and ranks of different speed -----------------------------------------------------------------------------

TEST(RanksOutOfStep, DivergeTogether) {
  for (const auto& keys : {local(4), stale(2)}) {
    std::vector<std::string> wild = keys;
    wild.push_back("optimizer.rate=1e20");
    std::vector<std::string> told(3);
    run_ranks(3, [&](Group& group) {
      Trainer trainer(recipe(wild), group, {.catalog = catalog_with_tiny()});
      try {
        trainer.run();
      } catch (const TrainingError& error) {
        told[static_cast<size_t>(group.rank())] = error.what();
      }
    });
    EXPECT_THAT(told[0], AllOf(HasSubstr("is not finite"), HasSubstr("try a lower optimizer.rate")));
    EXPECT_EQ(told[1], told[0]);
    EXPECT_EQ(told[2], told[0]);
  }
}

// Weights can be finite and lead nowhere: the next step tells.
TEST(RanksOutOfStep, GoOnFromBeforeTheStepThatSpoiltTheWeights) {
  for (const auto& keys : {local(2), stale(1)}) {
    const TestFolder folder;
    const Way going_on = {.folder = folder.path() / "run", .resume = true};
    std::vector<std::string> begun = keys, wild = keys, whole = keys;
    begun.insert(begun.end(), {"checkpoint.every_steps=3", "train.max_steps=6"});
    wild.insert(wild.end(), {"checkpoint.every_steps=1", "train.max_steps=12", "optimizer.rate=1e25"});
    whole.insert(whole.end(), {"checkpoint.every_steps=3", "train.max_steps=12"});
    train(2, begun, going_on);
    EXPECT_THROW(train(2, wild, going_on), TrainingError);
    bool is_aside = false;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "run" / "checkpoints"))
      is_aside |= entry.path().filename().string().starts_with("diverged-step-");
    EXPECT_TRUE(is_aside);
    EXPECT_EQ(train(2, whole, going_on).summary.steps, 12);
  }
}

// Its last step is due for a checkpoint, which must know that the last line of metrics was written.
TEST(FinishedRun, ThatIsResumedRecordsNothing) {
  const TestFolder folder;
  const Way way = {.folder = folder.path() / "run", .resume = true};
  const std::vector<std::string> keys = {"checkpoint.every_steps=2", "train.log_every_steps=5", "train.max_steps=12"};
  train(1, keys, way);
  const std::string lines = read_file(RunFolder{way.folder}.metrics());
  train(1, keys, way);
  EXPECT_EQ(read_file(RunFolder{way.folder}.metrics()), lines);
}

TEST(Slowdown, ARankTakesLongerForItsStepsAndNothingElseChanges) {
  const Outcome plain = train(2, {"train.max_steps=6"});
  const Outcome slow = train(2, {"train.max_steps=6", "sync.slowdown=[1, 100]"});
  EXPECT_EQ(slow.summary.weights_sha256, plain.summary.weights_sha256);
  EXPECT_GT(slow.summary.costs.compute_per_step_s, 10 * plain.summary.costs.compute_per_step_s);
  EXPECT_GT(slow.summary.costs.waiting_per_step_s, 10 * plain.summary.costs.waiting_per_step_s);
}

}  // namespace
}  // namespace paceline
