#include "paceline/core/recipe.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/recipe_keys.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

// A recipe that gives every key a value of its own and leaves none at its default, where that is allowed.
constexpr std::string_view kEverything = R"(
[model]
name = "somebody_elses"
init = "xavier"
zero_gamma = true
dropout = 0.1
[data]
name = "synthetic"
train_samples = 1000
test_samples = 100
classes = 7
channels = 1
image_size = 28
loader_threads = 2
prefetch_batches = 3
[augment]
crop_padding = 4
flip = true
cutout = 8
[batch]
local = 96
milestones = [1, 2.25]
sizes = [192, 384]
micro = 32
[train]
epochs = 2.5
max_steps = 77
target_accuracy = 0.91
seed = 9223372036854775807
device = "cuda"
precision = "f16"
threads = 3
eval_every_epochs = 0.5
log_every_steps = 10
diagnose_every_steps = 20
[precision]
loss_scale = 1024
growth_steps = 100
floor = 2
most_skips = 7
[loss]
name = "cross_entropy"
label_smoothing = 0.1
[optimizer]
name = "somebody_elses"
rate = 0.30000000000000004
momentum = 0.5
nesterov = true
weight_decay = 5e-324
clip_norm = 1.7976931348623157e308
average = 0.75
[schedule]
name = "step"
reference_batch = 256
warmup_epochs = 0.5
warmup_from = 1e-5
milestones = [1, 1.5, 2]
factor = 0.2
momentum = "noise_scale"
momentum_batch = 512
[batch_norm]
statistics = "last_iteration"
sync = true
recompute_batches = 10
[comm]
engine = "gloo"
algorithm = "ring"
bucket_bytes = "4MiB"
overlap = false
codec = "topk"
density = 0.02
density_warmup = false
error_feedback = true
momentum_correction = false
[sync]
policy = "allreduce"
[checkpoint]
every_steps = 5
keep = 1
)";

// Equal in every key, to the bit.
void expect_same_keys(const Recipe& a, const Recipe& b) {
  for (const DeclaredSection& section : declared_sections()) {
    for (const DeclaredKey& key : section.keys) {
      EXPECT_TRUE(key.member.get(a) == key.member.get(b)) << key.full_name();
    }
  }
}

TEST(Recipe, EmptyHasEveryDefault) {
  const Recipe recipe = parse_recipe("", "recipes/small.toml");
  expect_same_keys(recipe, Recipe{});
  EXPECT_EQ(recipe.title, "small");
  EXPECT_TRUE(recipe.written.empty());
}

TEST(Recipe, EveryKeyReachesItsMember) {
  const Recipe r = parse_recipe(kEverything, "r.toml");
  EXPECT_EQ(r.model.name, "somebody_elses");
  EXPECT_EQ(r.model.init, "xavier");
  EXPECT_TRUE(r.model.zero_gamma);
  EXPECT_EQ(r.model.dropout, 0.1);
  EXPECT_EQ(r.data.name, "synthetic");
  EXPECT_EQ(r.data.train_samples, 1000);
  EXPECT_EQ(r.data.test_samples, 100);
  EXPECT_EQ(r.data.classes, 7);
  EXPECT_EQ(r.data.channels, 1);
  EXPECT_EQ(r.data.image_size, 28);
  EXPECT_EQ(r.data.loader_threads, 2);
  EXPECT_EQ(r.data.prefetch_batches, 3);
  EXPECT_EQ(r.augment.crop_padding, 4);
  EXPECT_TRUE(r.augment.flip);
  EXPECT_EQ(r.augment.cutout, 8);
  EXPECT_EQ(r.batch.local, 96);
  EXPECT_EQ(r.batch.global, 0);  // local times the number of ranks, which a recipe does not know
  EXPECT_EQ(r.train.epochs, 2.5);
  EXPECT_EQ(r.train.max_steps, 77);
  EXPECT_EQ(r.train.target_accuracy, 0.91);
  EXPECT_EQ(r.train.seed, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(r.train.device, "cuda");
  EXPECT_EQ(r.train.threads, 3);
  EXPECT_EQ(r.train.eval_every_epochs, 0.5);
  EXPECT_EQ(r.train.log_every_steps, 10);
  EXPECT_EQ(r.train.diagnose_every_steps, 20);
  EXPECT_EQ(r.train.precision, "f16");
  EXPECT_EQ(r.precision.loss_scaling, "dynamic");  // nobody said so: f16 needs it
  EXPECT_EQ(r.precision.loss_scale, 1024);
  EXPECT_EQ(r.precision.growth_steps, 100);
  EXPECT_EQ(r.precision.floor, 2);
  EXPECT_EQ(r.precision.most_skips, 7);
  EXPECT_EQ(r.loss.label_smoothing, 0.1);
  EXPECT_EQ(r.optimizer.name, "somebody_elses");
  EXPECT_EQ(r.optimizer.rate, 0.1 + 0.2);
  EXPECT_EQ(r.optimizer.momentum, 0.5);
  EXPECT_TRUE(r.optimizer.nesterov);
  EXPECT_EQ(r.optimizer.weight_decay, std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(r.optimizer.clip_norm, std::numeric_limits<double>::max());
  EXPECT_EQ(r.optimizer.average, 0.75);
  EXPECT_EQ(r.schedule.name, "step");
  EXPECT_EQ(r.schedule.reference_batch, 256);
  EXPECT_EQ(r.schedule.warmup_epochs, 0.5);
  EXPECT_EQ(r.schedule.warmup_from, 1e-5);
  EXPECT_THAT(r.schedule.milestones, ElementsAre(1, 1.5, 2));
  EXPECT_EQ(r.schedule.factor, 0.2);
  EXPECT_THAT(r.batch.milestones, ElementsAre(1, 2.25));
  EXPECT_THAT(r.batch.sizes, ElementsAre(192, 384));
  EXPECT_EQ(r.batch.micro, 32);
  EXPECT_EQ(r.schedule.momentum, "noise_scale");
  EXPECT_EQ(r.schedule.momentum_batch, 512);
  EXPECT_EQ(r.batch_norm.statistics, "last_iteration");
  EXPECT_TRUE(r.batch_norm.sync);
  EXPECT_EQ(r.batch_norm.recompute_batches, 10);
  EXPECT_EQ(r.comm.engine, "gloo");
  EXPECT_EQ(r.comm.algorithm, "ring");
  EXPECT_FALSE(r.comm.overlap);
  EXPECT_EQ(r.comm.codec, "topk");
  EXPECT_EQ(r.comm.density, 0.02);
  EXPECT_FALSE(r.comm.density_warmup);
  EXPECT_FALSE(r.comm.momentum_correction);
  EXPECT_EQ(r.comm.bucket_bytes, 4u << 20);
  EXPECT_EQ(r.checkpoint.every_steps, 5);
  EXPECT_EQ(r.checkpoint.keep, 1);
}

TEST(Recipe, EveryKeyOfAnOptimizerReachesItsMember) {
  const auto parse = [](const std::string& keys) {
    return parse_recipe("train.epochs = 90\n[optimizer]\n" + keys, "r.toml").optimizer;
  };
  const Recipe::Optimizer hybrid = parse(
      "name = \"hybrid\"\neta = 0.01\nepsilon = 1e-6\nbeta1 = 0.8\nbeta2 = 0.99\nhybrid_epochs = 7.5\n"
      "adaptive_rate = 2e-3\nmomentum_correction = true\n");
  EXPECT_EQ(hybrid.eta, 0.01);
  EXPECT_EQ(hybrid.epsilon, 1e-6);
  EXPECT_EQ(hybrid.beta1, 0.8);
  EXPECT_EQ(hybrid.beta2, 0.99);
  EXPECT_EQ(hybrid.hybrid_epochs, 7.5);
  EXPECT_EQ(hybrid.adaptive_rate, 2e-3);
  EXPECT_TRUE(hybrid.momentum_correction);
  const Recipe::Optimizer adabound = parse("name = \"adabound\"\nfinal_rate = 0.2\ngamma = 0.01\n");
  EXPECT_EQ(adabound.final_rate, 0.2);
  EXPECT_EQ(adabound.gamma, 0.01);
  EXPECT_EQ(parse("name = \"rmsprop\"\nalpha = 0.9\n").alpha, 0.9);
  EXPECT_EQ(parse("name = \"lars\"\nepsilon = 0\n").epsilon, 0);
}

TEST(Recipe, PrintedItParsesToItself) {
  const std::string rest = "\ntrain.epochs = 8\n";
  for (const std::string& toml :
       std::vector<std::string>{"",
                                std::string(kEverything),
                                "batch.global = 77" + rest,
                                "schedule = {name = \"polynomial\", power = 1.1, end_rate = 1e-3}" + rest,
                                "schedule = {name = \"cosine\", end_rate = 0.05}" + rest,
                                "schedule = {name = \"exponential\", factor = 0.97}",
                                "loss.name = \"mse\"",
                                "optimizer.momentum = 0",
                                "train = {epochs = 0, max_steps = 1}",
                                "data.root = 'C:\\x \"y\" \t\u00e9'",
                                "comm.bucket_bytes = 1234567",
                                "optimizer.weight_decay = -0.0",
                                "train = {precision = \"f16\", device = \"cuda\"}",
                                "train = {precision = \"f16\", device = \"cuda\"}\nprecision.loss_scaling = \"none\"",
                                "precision = {loss_scaling = \"static\", loss_scale = 8}",
                                "train.precision = \"bf16\"",
                                "optimizer = {name = \"lars\", eta = 0.01, epsilon = 0}",
                                "model.name = \"resnet20\"",
                                "model.name = \"vgg16\"",
                                "sync.policy = \"local_sgd\"",
                                "sync.policy = \"easgd\"",
                                "sync = {policy = \"bsp\"}\ncomm.codec = \"int8\"",
                                "sync = {policy = \"adaptive_k\", rule = \"fixed\", k = 3}",
                                "sync = {policy = \"k_sync\", merge = \"drop\"}\noptimizer.name = \"adam\"",
                                "optimizer = {name = \"adamw\", beta1 = 0.8}",
                                "optimizer = {name = \"rmsprop\", alpha = 0.9}",
                                "optimizer = {name = \"adabound\", final_rate = 1}",
                                "optimizer = {name = \"hybrid\", hybrid_epochs = 3}" + rest}) {
    const Recipe recipe = parse_recipe(toml, "r.toml");
    const std::string printed = print_recipe(recipe);
    const Recipe again = parse_recipe(printed, "r.toml");
    expect_same_keys(again, recipe);
    EXPECT_EQ(print_recipe(again), printed);
  }
}

TEST(Recipe, PrintedNumbersAreExact) {
  EXPECT_EQ(print_number(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(print_number(3), "3");
  EXPECT_EQ(print_number(1e-5), "1e-05");
  EXPECT_TRUE(std::signbit(parse_recipe("optimizer.weight_decay = -0.0", "r.toml").optimizer.weight_decay));
  EXPECT_EQ(print_number(-0.0), "-0.0");
}

TEST(Recipe, PrintsOnlyKeysThatApply) {
  const std::string printed = print_recipe(Recipe{});
  EXPECT_THAT(printed, testing::HasSubstr("[batch]\nglobal = 128\nlocal = 0\n"));
  EXPECT_THAT(
      printed,
      testing::HasSubstr(
          "[schedule]\nname = \"constant\"\nreference_batch = 0\nwarmup_epochs = 0\nmomentum = \"constant\"\n\n"));
}

TEST(Recipe, UsualStalenessIsThatOfThePolicy) {
  const auto steps = [](const std::string& keys) { return parse_recipe(keys, "r.toml").sync.steps_of_staleness(); };
  EXPECT_EQ(steps("sync.policy = \"ssp\""), 3);
  EXPECT_EQ(steps("sync.policy = \"stale_allreduce\""), 1);
  EXPECT_EQ(steps("sync.policy = \"stale_allreduce\"\nsync.staleness = \"auto\""), 1);
  EXPECT_EQ(steps("sync.policy = \"stale_allreduce\"\nsync.staleness = 3"), 3);
  EXPECT_EQ(steps("sync.policy = \"ssp\"\nsync.staleness = 0"), 0);
}

// docs/results/defaults.md: a short trial has learnt much less after residual blocks that begin as the identity.
TEST(Recipe, ResidualBlocksDoNotBeginAsTheIdentityByDefault) {
  EXPECT_FALSE(Recipe{}.model.zero_gamma);
  EXPECT_FALSE(parse_recipe("model.name = \"resnet20\"", "r.toml").model.zero_gamma);
}

TEST(Recipe, NumbersMayBeIntegersAndSizesMayBeBoth) {
  EXPECT_EQ(parse_recipe("train.epochs = 3", "r.toml").train.epochs, 3);
  EXPECT_EQ(parse_recipe("comm.bucket_bytes = 65536", "r.toml").comm.bucket_bytes, 65536u);
  EXPECT_EQ(parse_recipe("comm.bucket_bytes = \"25M\"", "r.toml").comm.bucket_bytes, 25'000'000u);
}

TEST(Recipe, RemembersWhereKeysWereWritten) {
  const Recipe recipe = parse_recipe("[train]\n  seed = 3\nepochs = 2\n", "r.toml", {"train.epochs=4"});
  EXPECT_THAT(recipe.written,
              UnorderedElementsAre(Pair("train.seed", "r.toml:2:3"), Pair("train.epochs", "--set train.epochs=4")));
  EXPECT_EQ(recipe.where("train.seed"), "r.toml:2:3: train.seed");
  EXPECT_EQ(recipe.where("train.epochs"), "--set train.epochs=4: train.epochs");
  EXPECT_EQ(recipe.where("model.name"), "model.name");
  EXPECT_THAT([&] { recipe.refuse("train.seed", "is unlucky"); },
              ThrowsMessage<RecipeError>("r.toml:2:3: train.seed: is unlucky"));
}

TEST(RecipeOverrides, GoBeforeTheFile) {
  const Recipe recipe = parse_recipe("[train]\nepochs = 9\nseed = 2\n", "r.toml",
                                     {"train.epochs=0.5", "optimizer.nesterov=true", "schedule.name=\"step\"",
                                      "schedule.milestones=[0.125, 0.25]", "comm.bucket_bytes=0x10"});
  EXPECT_EQ(recipe.train.epochs, 0.5);
  EXPECT_EQ(recipe.train.seed, 2u);
  EXPECT_TRUE(recipe.optimizer.nesterov);
  EXPECT_EQ(recipe.schedule.name, "step");
  EXPECT_THAT(recipe.schedule.milestones, ElementsAre(0.125, 0.25));
  EXPECT_EQ(recipe.comm.bucket_bytes, 16u);
}

TEST(RecipeOverrides, BareWordsAreText) {
  const Recipe recipe = parse_recipe(
      "", "r.toml",
      {"model.name=resnet18", "data.root=../my data/mnist", "comm.bucket_bytes=4MiB", "train.device=cuda"});
  EXPECT_EQ(recipe.model.name, "resnet18");
  EXPECT_EQ(recipe.data.root, "../my data/mnist");
  EXPECT_EQ(recipe.comm.bucket_bytes, 4u << 20);
  EXPECT_EQ(recipe.train.device, "cuda");
}

TEST(RecipeOverrides, OneBatchReplacesTheOther) {
  const Recipe local = parse_recipe("batch.global = 64", "r.toml", {"batch.local=8"});
  EXPECT_EQ(local.batch.local, 8);
  EXPECT_EQ(local.batch.global, 0);
  const Recipe global = parse_recipe("batch.local = 8", "r.toml", {"batch.global=64"});
  EXPECT_EQ(global.batch.local, 0);
  EXPECT_EQ(global.batch.global, 64);
  EXPECT_EQ(parse_recipe("batch.global = 64", "r.toml", {"batch.local=0"}).batch.global, 64);
}

TEST(RecipeKeys, DefaultsAreAllowed) {
  for (const DeclaredSection& section : declared_sections()) {
    for (const DeclaredKey& key : section.keys) {
      const RecipeValue value = key.member.get(Recipe{});
      const auto* integer = std::get_if<int64_t>(&value);
      if (key.number_word && integer != nullptr && *integer == key.number_word->stands_for) continue;  // a word
      EXPECT_EQ(refusal(key, value), std::nullopt) << key.full_name();
    }
  }
  EXPECT_TRUE(contradictions(Recipe{}).empty());
}

TEST(RecipeKeys, AreFoundByTheirOwnNames) {
  for (const RecipeKey& key : recipe_keys()) {
    ASSERT_NE(find_key(key.section + "." + key.name), nullptr) << key.name;
    EXPECT_FALSE(key.meaning.empty()) << key.name;
  }
  EXPECT_EQ(find_key("train"), nullptr);
  EXPECT_EQ(find_key("train."), nullptr);
  EXPECT_EQ(find_key(""), nullptr);
}

TEST(RecipeKeys, AreDocumented) {
  EXPECT_EQ(read_file(PACELINE_SOURCE_DIR "/docs/recipe.md"), recipe_keys_markdown())
      << "docs/recipe.md is out of date; make it again: paceline recipe keys --markdown > docs/recipe.md";
}

TEST(RecipeChanges, NamesWhatDiffersWithBothValues) {
  Recipe before, after;
  EXPECT_TRUE(recipe_changes(before, after).empty());
  after.train.epochs = 8;
  after.model.name = "resnet20";
  EXPECT_EQ(recipe_changes(before, after),
            (std::vector<std::string>{"model.name: \"small_cnn\" -> \"resnet20\"", "train.epochs: 1 -> 8"}));
}

}  // namespace
}  // namespace paceline
