// Mixed precision through the whole trainer: ranks are threads.
#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/models/layers.h"
#include "paceline/models/state.h"
#include "paceline/precision/autocast.h"
#include "paceline/train/assemble.h"
#include "paceline/train/loss.h"
#include "paceline/train/step.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of paceline's own layers; `kinds` are the types of what they gave last.
class TinyCnn : public Model {
 public:
  explicit TinyCnn(const ModelOptions& options) {
    conv_ = register_module("conv", std::make_shared<Conv2d>(ConvShape{options.channels, 6, 3, 1, 1, 1, false}));
    norm_ = register_module("norm", std::make_shared<BatchNorm2d>(6));
    fc_ = register_module("fc", std::make_shared<Linear>(6 * 4 * 4, options.classes));
  }
  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor products = conv_->forward(images), normed = norm_->forward(products);
    const torch::Tensor logits = fc_->forward(torch::max_pool2d(normed.relu(), 2).flatten(1));
    kinds = {products.scalar_type(), normed.scalar_type(), logits.scalar_type()};
    return logits;
  }
  std::vector<torch::ScalarType> kinds;

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
  std::shared_ptr<Linear> fc_;
};

Catalog catalog() {
  Catalog catalog;
  catalog.models.add("tiny",
                     {"for tests", 8, [](const ModelOptions& options) { return std::make_shared<TinyCnn>(options); }});
  return catalog;
}

Recipe recipe(const std::vector<std::string>& overrides = {}) {
  return parse_recipe(R"(
    [model]
    name = "tiny"
    [data]
    name = "synthetic"
    train_samples = 96
    test_samples = 64
    channels = 1
    image_size = 8
    classes = 4
    [batch]
    global = 24
    [optimizer]
    rate = 0.05
    [train]
    epochs = 4
    threads = 1
    log_every_steps = 2
  )",
                      "tiny.toml", overrides);
}

Summary train(int ranks, const Recipe& recipe, const TrainerOptions& of_first = {}) {
  Summary summary;
  run_ranks(ranks, [&](Group& group) {
    TrainerOptions options = group.rank() == 0 ? of_first : TrainerOptions{.resume = of_first.resume};
    options.catalog = catalog();
    Trainer trainer(recipe, group, options);
    const Summary own = trainer.run();
    if (group.rank() == ranks - 1) summary = own;
  });
  return summary;
}

std::vector<std::string> scaled(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"precision.loss_scaling=dynamic", "precision.growth_steps=3"});
  return more;
}

TEST(MixedPrecision, ABf16RunLearnsAsWellAsF32) {
  const std::vector<std::string> longer = {"train.epochs=25"};
  const Summary f32 = train(1, recipe(longer)), bf16 = train(1, recipe({"train.epochs=25", "train.precision=bf16"}));
  EXPECT_GT(f32.test_accuracy, 0.9);
  EXPECT_NEAR(bf16.test_accuracy, f32.test_accuracy, 0.05);
  EXPECT_NEAR(bf16.train_loss, f32.train_loss, 0.1);
  EXPECT_NE(bf16.weights_sha256, f32.weights_sha256);
  EXPECT_EQ(bf16.precision, "bf16");
}

TEST(MixedPrecision, LayersComputeIn16BitsAndKeepF32) {
  const auto group = make_local_group();
  Trainer trainer(recipe({"train.precision=bf16", "train.max_steps=2"}), *group, {.catalog = catalog()});
  auto& model = dynamic_cast<TinyCnn&>(trainer.model());
  model.train();
  trainer.run();  // the last forward was the evaluation's, in f32
  EXPECT_THAT(model.kinds, testing::Each(torch::kFloat32));
  for (const auto& [name, tensor] : state_of(model)) {
    if (!tensor.is_floating_point()) continue;  // a counter of batches
    EXPECT_EQ(tensor.scalar_type(), torch::kFloat32) << name;
  }
}

// ---- one step at a time ---------------------------------------------------------------------------------------------

// A step of one rank of several, with data that can be spoilt.
struct Bench {
  Bench(Group& group, const Recipe& recipe_)
      : recipe(recipe_), data(open_data(recipe, catalog())), model(build_model(recipe, catalog(), *data.train)) {
    optimizer = build_optimizer(recipe, catalog(), *model, group.size());
    reducer = build_reducer(recipe, catalog(), *model, group, nullptr);
    scaler = build_loss_scaler(recipe, torch::kCPU);
    step = std::make_unique<TrainStep>(model, *optimizer, group, recipe, *reducer, nullptr, scaler.get());
    model->train();
    images = torch::arange(4 * 64).add(group.rank()).sin().view({4, 1, 8, 8});
    labels = torch::arange(4);
    samples = 4 * group.size();
  }
  StepOutcome run(const torch::Tensor& with) {
    return step->make({.batch = {with, labels, 4, static_cast<size_t>(samples)},
                       .global_count = samples,
                       .step = steps++,
                       .rate = 0.1,
                       .momentum = 0.9});
  }
  // Everything that a step may change, as one text.
  std::string everything() const {
    std::map<std::string, torch::Tensor> all;
    for (const auto& [name, tensor] : state_of(*model)) all["model." + name] = tensor;
    for (const auto& [name, tensor] : optimizer->state()) all["optimizer." + name] = tensor;
    for (const auto& [name, tensor] : reducer->state()) all["reducer." + name] = tensor;
    std::string bytes;
    for (const auto& [name, tensor] : all) {
      const torch::Tensor whole = tensor.contiguous();
      bytes += name;
      bytes.append(static_cast<const char*>(whole.data_ptr()), static_cast<size_t>(whole.nbytes()));
    }
    return bytes;
  }

  Recipe recipe;
  DatasetPair data;
  std::shared_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Reducer> reducer;
  std::unique_ptr<LossScaler> scaler;
  std::unique_ptr<TrainStep> step;
  torch::Tensor images, labels;
  int64_t samples = 0, steps = 0;
};

TEST(MixedPrecisionStep, TrainsIn16Bits) {
  const auto group = make_local_group();
  Bench bench(*group, recipe({"train.precision=bf16"}));
  bench.run(bench.images);
  EXPECT_THAT(dynamic_cast<TinyCnn&>(*bench.model).kinds, testing::Each(torch::kBFloat16));
  for (const torch::Tensor& parameter : bench.model->parameters())
    EXPECT_EQ(parameter.grad().scalar_type(), torch::kFloat32);
}

// Softmax and loss are f32's, of logits that have 8 bits.
TEST(MixedPrecisionStep, TheLossIsComputedInF32) {
  const auto group = make_local_group();
  Bench bench(*group, recipe({"train.precision=bf16", "loss.label_smoothing=0.1"}));
  torch::Tensor logits;
  {
    const torch::NoGradGuard no_grad;
    const Autocast autocast(torch::kCPU, torch::kBFloat16);
    logits = bench.model->forward(bench.images);
  }
  ASSERT_EQ(logits.scalar_type(), torch::kBFloat16);
  const double expected = loss_sum(bench.recipe.loss, logits.to(torch::kFloat64), bench.labels).item<double>();
  EXPECT_NEAR(bench.run(bench.images).loss_sum.item<double>(), expected, 1e-6 * expected);
}

class OverflowTest : public ::testing::TestWithParam<std::string> {};

// One rank's samples overflow: all three skip, and nothing is left of the step. Then all go on.
TEST_P(OverflowTest, OnOneRankSkipsTheStepOnAll) {
  run_ranks(3, [&](Group& group) {
    // A sparse codec sends some elements only; what is not finite must be among them.
    Bench bench(group, recipe(scaled({"comm.codec=" + GetParam(), "precision.loss_scale=256"})));
    bench.run(bench.images);
    const std::string before = bench.everything();
    torch::Tensor images = bench.images.clone();
    if (group.rank() == 1) images[2][0][3][3] = kInfinity;
    const StepOutcome outcome = bench.run(images);
    EXPECT_TRUE(outcome.skipped) << group.rank();
    EXPECT_EQ(bench.scaler->state().scale, 128) << group.rank();
    // What a codec owes is of the scaled gradient, and follows the scale.
    scale_debts(*bench.reducer, 2);
    EXPECT_TRUE(bench.everything() == before) << group.rank();
    scale_debts(*bench.reducer, 0.5);
    EXPECT_FALSE(bench.run(bench.images).skipped) << group.rank();
    EXPECT_FALSE(bench.everything() == before);
    EXPECT_EQ(bench.scaler->state().skipped_steps, 1);
  });
}

// The loss is finite everywhere: only the gradients tell, through whatever they are packed with.
TEST_P(OverflowTest, OfOneRanksGradientSkipsTheStepOnAll) {
  run_ranks(3, [&](Group& group) {
    Bench bench(group, recipe(scaled({"comm.codec=" + GetParam(), "precision.loss_scale=256"})));
    bool overflows = false;
    const auto spoil = [&](const torch::Tensor& gradient) { return overflows ? gradient * kInfinity : gradient; };
    bench.model->named_parameters()["fc.weight"].register_hook(spoil);
    bench.run(bench.images);
    const std::string before = bench.everything();
    overflows = group.rank() == 1;
    const StepOutcome outcome = bench.run(bench.images);
    EXPECT_TRUE(std::isfinite(outcome.loss_sum.item<float>()));
    EXPECT_TRUE(outcome.skipped) << group.rank();
    scale_debts(*bench.reducer, 2);  // they follow the scale
    EXPECT_TRUE(bench.everything() == before) << group.rank();
    scale_debts(*bench.reducer, 0.5);
    overflows = false;
    EXPECT_FALSE(bench.run(bench.images).skipped) << group.rank();
    EXPECT_EQ(bench.scaler->state().skipped_steps, 1);
  });
}

TEST(MixedPrecisionStep, WithoutScalingOneRanksInputEndsTheRunOnAllAndIsNamed) {
  run_ranks(3, [&](Group& group) {
    Bench bench(group, recipe());
    bench.run(bench.images);
    torch::Tensor images = bench.images.clone();
    if (group.rank() == 1) images[2][0][3][3] = kInfinity;
    const NamedTensors weights = state_of(*bench.model);
    const torch::Tensor before = weights.at("fc.weight").clone();
    EXPECT_THAT([&] { bench.run(images); },
                testing::ThrowsMessage<TrainingError>(
                    testing::AllOf(HasSubstr("step 2"), HasSubstr("the input itself is not finite on rank 1"))));
    EXPECT_TRUE(torch::equal(weights.at("fc.weight"), before));  // it never reached the weights
  });
}

INSTANTIATE_TEST_SUITE_P(Codecs, OverflowTest,
                         ::testing::Values("none", "fp16", "bf16", "int8", "onebit", "topk", "threshold"),
                         [](const auto& info) { return info.param; });

TEST(MixedPrecisionStep, ThePowerOfTwoOfTheScaleChangesNothing) {
  const auto group = make_local_group();
  Bench plain(*group, recipe({"optimizer.clip_norm=0.5"}));
  Bench with(*group, recipe(scaled({"optimizer.clip_norm=0.5"})));
  for (int step = 0; step < 8; ++step) {  // the scale grows twice
    plain.run(plain.images);
    with.run(with.images);
  }
  EXPECT_EQ(with.scaler->state().scale, 4 * 65536);
  EXPECT_TRUE(with.everything() == plain.everything());
}

TEST(MixedPrecisionStep, GradientsOfZeroAreNoOverflow) {
  const auto group = make_local_group();
  Bench bench(*group, recipe(scaled({"optimizer.name=lars"})));
  const std::vector<torch::Tensor> parameters = bench.model->parameters();
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& parameter : parameters) before.push_back(parameter.detach().clone());
  bench.labels = torch::full({4}, -100, torch::kInt64);  // cross-entropy leaves such samples out
  for (int step = 0; step < 3; ++step) EXPECT_FALSE(bench.run(bench.images).skipped);
  EXPECT_EQ(bench.scaler->state().scale, 2 * 65536);
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].grad().abs().max().item<float>(), 0);
    EXPECT_TRUE(torch::equal(parameters[i], before[i]));
  }
}

// ---- the run --------------------------------------------------------------------------------------------------------

TEST(MixedPrecision, SynchronisedBatchNormWorksIn16Bits) {
  const Summary summary = train(2, recipe({"train.precision=bf16", "batch_norm.sync=true", "train.epochs=20"}));
  EXPECT_GT(summary.test_accuracy, 0.9);
}

class ResumeTest : public ::testing::TestWithParam<std::pair<int, std::vector<std::string>>> {};

TEST_P(ResumeTest, GoesOnBitForBit) {
  const TestFolder folder;
  const auto& [ranks, settings] = GetParam();
  const auto cut = [&](const std::string& steps) {
    std::vector<std::string> all = scaled(settings);
    all.push_back("train.max_steps=" + steps);
    return recipe(all);
  };
  const Summary whole = train(ranks, cut("13"), {.run_folder = {folder.path() / "whole"}});
  train(ranks, cut("7"), {.run_folder = {folder.path() / "cut"}});
  const Summary resumed = train(ranks, cut("13"), {.run_folder = {folder.path() / "cut"}, .resume = true});
  EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256);
  EXPECT_EQ(resumed.skipped_steps, whole.skipped_steps);
  const auto last_line = [&](const std::string& run) {
    const std::string lines = read_file(folder.path() / run / "metrics.jsonl");
    const size_t at = lines.rfind("\"loss_scale\"");
    return at == std::string::npos ? "none" : lines.substr(at, lines.find('\n', at) - at);
  };
  EXPECT_EQ(last_line("cut"), last_line("whole"));
  EXPECT_THAT(last_line("whole"), HasSubstr("\"loss_scale\":"));
}

INSTANTIATE_TEST_SUITE_P(
    Runs, ResumeTest,
    ::testing::Values(std::pair(1, std::vector<std::string>{"train.precision=bf16"}),
                      // Begins far too high: the first steps are skipped.
                      std::pair(1, std::vector<std::string>{"precision.loss_scale=1e12", "optimizer.rate=1e-3"}),
                      std::pair(2, std::vector<std::string>{"train.precision=bf16", "comm.codec=int8"}),
                      std::pair(2, std::vector<std::string>{"comm.codec=fp16", "precision.loss_scale=1e9"})));

TEST(MixedPrecision, AScaleThatIsTooHighFindsItsWayDown) {
  const Summary summary = train(2, recipe(scaled({"comm.codec=fp16", "precision.loss_scale=1e9", "train.epochs=30"})));
  EXPECT_GT(summary.skipped_steps, 5);  // fp16 ends at 65504
  EXPECT_GT(summary.test_accuracy, 0.9);
}

// Step 5 is finite and ruins the weights; from then on every step is skipped.
TEST(MixedPrecision, ARunThatOnlySkipsPushesOutNoCheckpoint) {
  const TestFolder folder;
  const Recipe ruined = recipe(scaled({"schedule.name=step", "schedule.milestones=[1]", "schedule.factor=1e30",
                                       "precision.most_skips=8", "checkpoint.every_steps=2", "checkpoint.keep=1"}));
  for (const int ranks : {1, 2}) {
    const std::filesystem::path run = folder.path() / std::to_string(ranks);
    EXPECT_THROW(train(ranks, ruined, {.run_folder = {run}}), TrainingError);
    const auto left = CheckpointStore(run / "checkpoints", 1).all();
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].step, 4);
    EXPECT_THAT(read_file(run / "metrics.jsonl"), HasSubstr("\"loss\":null,\"accuracy\":null"));
  }
}

TEST(MixedPrecision, TooManySkipsEndTheRunWithAdvice) {
  const std::vector<std::string> hopeless = {"comm.codec=fp16", "precision.loss_scaling=static",
                                             "precision.loss_scale=1e12", "precision.most_skips=4"};
  try {
    train(2, recipe(hopeless));
    FAIL() << "nothing was thrown";
  } catch (const TrainingError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 4 (epoch 0.75): 4 steps in a row were skipped"));
    EXPECT_THAT(error.what(), HasSubstr("try a lower precision.loss_scale"));
  }
}

}  // namespace
}  // namespace paceline
