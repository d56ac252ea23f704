// Every way in which a recipe can be wrong, with the whole message that its author reads.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/recipe.h"

namespace paceline {
namespace {

struct WrongRecipe {
  std::string toml;
  std::string message;
  std::vector<std::string> overrides = {};
};

void expect_messages(const std::vector<WrongRecipe>& recipes) {
  for (const WrongRecipe& wrong : recipes) {
    std::string message = "(accepted)";
    try {
      parse_recipe(wrong.toml, "r.toml", wrong.overrides);
    } catch (const RecipeError& error) {
      message = error.what();
    }
    EXPECT_EQ(message, wrong.message) << wrong.toml;
  }
}

TEST(RecipeErrors, NotToml) {
  expect_messages({
      {"[train]\nseed =\n",
       "r.toml:2:7: not valid TOML: Error while parsing key-value pair: expected value, saw '\\n'"},
      {"[train]\nseed = 1\nseed = 2\n",
       "r.toml:3:8: not valid TOML: Error while parsing key-value pair: cannot redefine existing integer 'seed'"},
      {"[train]\n[train]\n",
       "r.toml:2:1: not valid TOML: Error while parsing table header: cannot redefine existing table 'train'"},
      {"[train\n", "r.toml:1:7: not valid TOML: Error while parsing table header: expected ']', saw '\\n'"},
      {"[train]\ndevice = cuda\n",
       "r.toml:2:10: not valid TOML: Error while parsing value: could not determine value type; text needs quotes"},
      {"[train]\nseed = 99999999999999999999\n",
       "r.toml:2:28: not valid TOML: Error while parsing decimal integer: '99999999999999999999' is not representable "
       "in "
       "64 bits"},
      {"[optimizer]\nrate = 1e400\n",
       "r.toml:2:13: not valid TOML: Error while parsing floating-point: '1e400' could not be interpreted as a value"},
  });
}

TEST(RecipeErrors, UnknownNames) {
  expect_messages({
      {"[trian]\nseed = 1\n", "r.toml:1:2: trian: unknown section; did you mean 'train'? (see 'paceline recipe keys')"},
      {"[quux]\n", "r.toml:1:2: quux: unknown section (see 'paceline recipe keys')"},
      {"[\"train.seed\"]\n", "r.toml:1:2: train.seed: unknown section (see 'paceline recipe keys')"},
      {"[train]\nepoch = 3\n",
       "r.toml:2:1: train.epoch: unknown key; did you mean 'epochs'? (see 'paceline recipe keys')"},
      {"train.epoch = 3\n",
       "r.toml:1:7: train.epoch: unknown key; did you mean 'epochs'? (see 'paceline recipe keys')"},
      {"[train]\nfoo = 3\n", "r.toml:2:1: train.foo: unknown key (see 'paceline recipe keys')"},
      {"[train.foo]\nx = 3\n", "r.toml:1:8: train.foo: unknown key (see 'paceline recipe keys')"},
      {"[train]\n\"\" = 3\n", "r.toml:2:1: train.: unknown key (see 'paceline recipe keys')"},
      {"[optimizer]\nseed = 3\n",
       "r.toml:2:1: optimizer.seed: unknown key; did you mean 'train.seed'? (see 'paceline recipe keys')"},
      {"[optimizer]\nmilestone = [3]\n",
       "r.toml:2:1: optimizer.milestone: unknown key; did you mean 'batch.milestones' or 'schedule.milestones'? (see "
       "'paceline recipe "
       "keys')"},
      {"[batch]\nthreads = 3\n",
       "r.toml:2:1: batch.threads: unknown key; did you mean 'train.threads'? (see 'paceline recipe keys')"},
      {"[augment]\nname = \"flip\"\n",
       "r.toml:2:1: augment.name: unknown key; did you mean 'model.name' or 'data.name' or 'loss.name' or "
       "'optimizer.name' or "
       "'schedule.name'? (see 'paceline recipe keys')"},
  });
}

TEST(RecipeErrors, KeysAndSectionsMixedUp) {
  expect_messages({
      {"seed = 1\n",
       "r.toml:1:1: seed: stands outside a section; did you mean 'train.seed'? (see 'paceline recipe keys')"},
      {"foo = 1\n", "r.toml:1:1: foo: stands outside a section (see 'paceline recipe keys')"},
      {"train = 5\n", "r.toml:1:1: train: is a section, not a key: expected [train], found the integer 5"},
      {"[[train]]\nseed = 1\n", "r.toml:1:3: train: is a section, not a key: expected [train], found a list"},
      {"[train.seed]\nx = 1\n", "r.toml:1:1: train.seed: expected an integer, found a table"},
  });
}

TEST(RecipeErrors, WrongTypes) {
  expect_messages({
      {"[train]\nseed = \"one\"\n", "r.toml:2:8: train.seed: expected an integer, found the text \"one\""},
      {"[train]\nseed = 1.0\n", "r.toml:2:8: train.seed: expected an integer, found the number 1.0"},
      {"[train]\nseed = 1e30\n", "r.toml:2:8: train.seed: expected an integer, found the number 1e+30"},
      {"[train]\nepochs = \"3\"\n", "r.toml:2:10: train.epochs: expected a number, found the text \"3\""},
      {"[train]\nepochs = [3]\n", "r.toml:2:10: train.epochs: expected a number, found a list"},
      {"[optimizer]\nnesterov = 1\n", "r.toml:2:12: optimizer.nesterov: expected true or false, found the integer 1"},
      {"[model]\nname = 3\n", "r.toml:2:8: model.name: expected text in quotes, found the integer 3"},
      {"[data]\nname = true\n", "r.toml:2:8: data.name: expected text in quotes, found the boolean true"},
      {"[data]\nroot = 2020-01-01\n", "r.toml:2:8: data.root: expected text in quotes, found a date or time"},
      {"[schedule]\nmilestones = 3\n",
       "r.toml:2:14: schedule.milestones: expected a list of numbers, found the integer 3"},
      {"[schedule]\nmilestones = [3,\n  \"x\"]\n",
       "r.toml:3:3: schedule.milestones: expected a number, found the text \"x\""},
      {"[comm]\nbucket_bytes = \"4MB\"\n",
       "r.toml:2:16: comm.bucket_bytes: expected a size, such as 65536 or \"4MiB\", found the text \"4MB\""},
      {"[comm]\nbucket_bytes = 1.5\n",
       "r.toml:2:16: comm.bucket_bytes: expected a size, such as 65536 or \"4MiB\", found the number 1.5"},
  });
}

TEST(RecipeErrors, OutOfRange) {
  expect_messages({
      {"[optimizer]\n  rate = -0.1\n", "r.toml:2:10: optimizer.rate: -0.1 is out of range (allowed: > 0)"},
      {"[optimizer]\nrate = 0\n", "r.toml:2:8: optimizer.rate: 0 is out of range (allowed: > 0)"},
      {"[optimizer]\nrate = inf\n", "r.toml:2:8: optimizer.rate: inf is not a finite number (allowed: > 0)"},
      {"[optimizer]\nmomentum = 1\n", "r.toml:2:12: optimizer.momentum: 1 is out of range (allowed: >= 0 and < 1)"},
      {"[train]\nepochs = nan\n", "r.toml:2:10: train.epochs: nan is not a finite number (allowed: 0 to 1000000)"},
      {"[train]\nepochs = -1\n", "r.toml:2:10: train.epochs: -1 is out of range (allowed: 0 to 1000000)"},
      {"[train]\nseed = -1\n", "r.toml:2:8: train.seed: -1 is out of range (allowed: >= 0)"},
      {"[train]\neval_every_epochs = 0\n",
       "r.toml:2:21: train.eval_every_epochs: 0 is out of range (allowed: > 0 and <= 1000000)"},
      {"[train]\ntarget_accuracy = 91\n",
       "r.toml:2:19: train.target_accuracy: 91 is out of range (allowed: 0 to 1); accuracies are fractions of 1: 91 % "
       "is "
       "0.91"},
      {"[batch]\nlocal = -1\n", "r.toml:2:9: batch.local: -1 is out of range (allowed: 0 to 1000000000, \"auto\")"},
      {"[batch]\nglobal = 0\n", "r.toml:2:10: batch.global: 0 is out of range (allowed: 1 to 1000000000)"},
      {"[batch]\nglobal = 9223372036854775807\n",
       "r.toml:2:10: batch.global: 9223372036854775807 is out of range (allowed: 1 to 1000000000)"},
      {"[schedule]\nmilestones = [3, -1]\n",
       "r.toml:2:18: schedule.milestones: -1 is out of range (allowed: > 0 and <= 1000000)"},
      {"[comm]\nbucket_bytes = -1\n", "r.toml:2:16: comm.bucket_bytes: -1 is out of range (allowed: 0 to 1024GiB)"},
      {"[comm]\nbucket_bytes = \"2048GiB\"\n",
       "r.toml:2:16: comm.bucket_bytes: \"2048GiB\" is out of range (allowed: 0 to 1024GiB)"},
  });
}

TEST(RecipeErrors, WordsThatAreNotInTheList) {
  expect_messages({
      {"[train]\ndevice = \"cdua\"\n",
       "r.toml:2:10: train.device: \"cdua\" is not allowed; did you mean 'cuda'? (allowed: cpu, cuda)"},
      {"[train]\nprecision = \"bf17\"\n",
       "r.toml:2:13: train.precision: \"bf17\" is not allowed; did you mean 'bf16'? (allowed: f32, bf16, f16)"},
      {"[schedule]\nname = \"cosin\"\n",
       "r.toml:2:8: schedule.name: \"cosin\" is not allowed; did you mean 'cosine'? (allowed: constant, step, "
       "exponential, "
       "polynomial, cosine)"},
      {"[loss]\nname = \"\"\n", "r.toml:2:8: loss.name: \"\" is not allowed (allowed: cross_entropy, mse)"},
      {"[model]\ninit = \"a\\u0007\"\n",
       "r.toml:2:8: model.init: \"a\\u0007\" is not allowed (allowed: kaiming, xavier, normal)"},
  });
}

TEST(RecipeErrors, KeysWithoutEffect) {
  expect_messages({
      {"[schedule]\nmilestones = [1, 2]\n",
       "r.toml:2:1: schedule.milestones: applies only with schedule.name = \"step\" or \"polynomial\" (it is "
       "\"constant\" by "
       "default)"},
      {"[schedule]\nrates = [1]\n",
       "r.toml:2:1: schedule.rates: applies only with schedule.name = \"polynomial\" (it is \"constant\" by default)"},
      {"[schedule]\nwarmup_to = 1\n",
       "r.toml:2:1: schedule.warmup_to: applies only with schedule.warmup_epochs > 0 (it is 0 by default)"},
      {"[schedule]\ndecay_from = \"start\"\n",
       "r.toml:2:1: schedule.decay_from: applies only with schedule.name = \"exponential\" or \"polynomial\" or "
       "\"cosine\" "
       "(it is \"constant\" by default)"},
      {"[batch]\nfills = [8]\n",
       "r.toml:2:1: batch.fills: 0 in batch.milestones, 1 in batch.fills: give one for each "
       "milestone, or none\nr.toml:2:1: batch.fills: applies only with batch.fill > 0 (it is 0 by default)"},
      {"[schedule]\nname = \"cosine\"\nfactor = 0.5\n",
       "r.toml:3:1: schedule.factor: applies only with schedule.name = \"step\" or \"exponential\" (it is \"cosine\" "
       "at "
       "r.toml:2:1)"},
      {"[schedule]\npower = 2\n",
       "r.toml:2:1: schedule.power: applies only with schedule.name = \"polynomial\" (it is \"constant\" by default)"},
      {"[schedule]\nend_rate = 0\n",
       "r.toml:2:1: schedule.end_rate: applies only with schedule.name = \"polynomial\" or \"cosine\" (it is "
       "\"constant\" by "
       "default)"},
      {"[schedule]\nwarmup_from = 0.1\n",
       "r.toml:2:1: schedule.warmup_from: applies only with schedule.warmup_epochs > 0 (it is 0 by default)"},
      {"[data]\nclasses = 3\n",
       "r.toml:2:1: data.classes: applies only with data.name = \"synthetic\" (it is \"fashion_mnist\" by default)"},
      {"[data]\nname = \"synthetic\"\nroot = \"/x\"\n",
       "r.toml:3:1: data.root: applies only with data.name other than \"synthetic\" (it is \"synthetic\" at "
       "r.toml:2:1)"},
      {"[loss]\nname = \"mse\"\nlabel_smoothing = 0.1\n",
       "r.toml:3:1: loss.label_smoothing: applies only with loss.name = \"cross_entropy\" (it is \"mse\" at "
       "r.toml:2:1)"},
      {"[optimizer]\nmomentum = 0\nnesterov = true\n",
       "r.toml:3:1: optimizer.nesterov: applies only with optimizer.momentum > 0 (it is 0 at r.toml:2:1)"},
  });
}

TEST(RecipeErrors, Precision) {
  expect_messages({
      {"[train]\nprecision = \"f16\"\n",
       "r.toml:2:1: train.precision: \"f16\" needs train.device = \"cuda\": processors have no fast arithmetic for it; "
       "use \"bf16\" or \"f32\" (it is \"cpu\" by default)"},
      {"[train]\nprecision = \"bf16\"\n[precision]\nloss_scale = 8\n",
       "r.toml:4:1: precision.loss_scale: applies only with precision.loss_scaling other than \"none\" (it is \"none\" "
       "by default)"},
      {"[precision]\nloss_scaling = \"static\"\ngrowth_steps = 8\n",
       "r.toml:3:1: precision.growth_steps: applies only with precision.loss_scaling = \"dynamic\" (it is \"static\" "
       "at "
       "r.toml:2:1)"},
      {"[precision]\nloss_scaling = \"dynamic\"\nloss_scale = 8\nfloor = 16\n",
       "r.toml:4:1: precision.floor: 16 is above precision.loss_scale (it is 8 at r.toml:3:1)"},
  });
}

TEST(RecipeErrors, WhatAnOverrideLeavesWithoutEffectCanBeLeftOut) {
  const std::string file = "[optimizer]\nmomentum = 0.8\n";
  try {
    parse_recipe(file, "r.toml", {"optimizer.name=adam"});
    FAIL() << "nothing was thrown";
  } catch (const RecipeError& error) {
    EXPECT_STREQ(
        error.what(),
        "r.toml:2:1: optimizer.momentum: applies only with optimizer.name other than \"adam\" or \"adamw\" or "
        "\"adabound\" (it is \"adam\" at --set optimizer.name=adam); --set optimizer.momentum=default leaves it "
        "out");
  }
  const Recipe recipe = parse_recipe(file, "r.toml", {"optimizer.name=adam", "optimizer.momentum=default"});
  EXPECT_EQ(recipe.optimizer.momentum, Recipe().optimizer.momentum);
  EXPECT_FALSE(recipe.written.contains("optimizer.momentum"));
}

TEST(RecipeErrors, MomentaWithoutEffect) {
  expect_messages({
      {"[optimizer]\nname = \"adam\"\n[schedule]\nmomentum = \"noise_scale\"\n",
       "r.toml:4:1: schedule.momentum: applies only with optimizer.name other than \"adam\" or \"adamw\" or "
       "\"adabound\" (it is \"adam\" at r.toml:2:1)"},
      {"[optimizer]\nmomentum = 0.9\n[schedule]\nmomentum = \"noise_scale\"\n[comm]\ncodec = \"topk\"\n",
       "r.toml:4:1: schedule.momentum: \"noise_scale\" does not go with comm.codec = \"topk\", which gathers a "
       "momentum "
       "that stays the same; leave it out or set comm.momentum_correction = false"},
      {"[optimizer]\nname = \"lars\"\nmomentum = 0\nmomentum_correction = true\n",
       "r.toml:4:1: optimizer.momentum_correction: applies only with optimizer.momentum > 0 (it is 0 at r.toml:3:1)"},
      {"[train]\ndiagnose_every_steps = 2\n[sync]\npolicy = \"bsp\"\n",
       "r.toml:2:1: train.diagnose_every_steps: applies only with sync.policy = \"allreduce\" or \"local_sgd\" or "
       "\"stale_allreduce\" (it is \"bsp\" at r.toml:4:1)"},
  });
}

TEST(RecipeErrors, FoundRates) {
  const std::string found = "[sync]\nrate = \"barzilai_borwein\"\n";
  expect_messages({
      {found + "[optimizer]\nname = \"lars\"\n",
       "r.toml:2:1: sync.rate: finds rates for steps along the gradient: it needs optimizer.name = \"sgd\" (it is "
       "\"lars\" at r.toml:4:1)"},
      {found + "[precision]\nloss_scaling = \"dynamic\"\n",
       "r.toml:2:1: sync.rate: compares gradients as they are: it does not go with precision.loss_scaling (it is "
       "\"dynamic\" at r.toml:4:1)"},
      {found + "[comm]\ncodec = \"int8\"\n",
       "r.toml:2:1: sync.rate: compares gradients as they are: it needs comm.codec = \"none\" (it is \"int8\" at "
       "r.toml:4:1)"},
      {"[sync]\npolicy = \"local_sgd\"\nrate = \"barzilai_borwein\"\n",
       "r.toml:3:1: sync.rate: applies only with sync.policy = \"allreduce\" or \"bsp\" or \"asp\" or \"ssp\" or "
       "\"drop_worker\" or \"k_sync\" or \"adaptive_k\" (it is \"local_sgd\" at r.toml:2:1)"},
  });
}

TEST(RecipeErrors, Optimizers) {
  expect_messages({
      {"[optimizer]\neta = 0.01\n",
       "r.toml:2:1: optimizer.eta: applies only with optimizer.name = \"lars\" or \"hybrid\" (it is \"sgd\" by "
       "default)"},
      {"[optimizer]\nname = \"lars\"\nbeta1 = 0.8\n",
       "r.toml:3:1: optimizer.beta1: applies only with optimizer.name = \"adam\" or \"adamw\" or \"adabound\" or "
       "\"hybrid\" (it is \"lars\" at r.toml:2:1)"},
      {"[optimizer]\nname = \"adam\"\nalpha = 0.8\n",
       "r.toml:3:1: optimizer.alpha: applies only with optimizer.name = \"rmsprop\" (it is \"adam\" at r.toml:2:1)"},
      {"[optimizer]\nname = \"adam\"\nmomentum = 0.8\n",
       "r.toml:3:1: optimizer.momentum: applies only with optimizer.name other than \"adam\" or \"adamw\" or "
       "\"adabound\" (it is \"adam\" at r.toml:2:1)"},
      {"[optimizer]\nname = \"lars\"\nnesterov = true\n",
       "r.toml:3:1: optimizer.nesterov: applies only with optimizer.name = \"sgd\" (it is \"lars\" at r.toml:2:1)"},
      {"[optimizer]\nmomentum_correction = true\n",
       "r.toml:2:1: optimizer.momentum_correction: applies only with optimizer.name = \"lars\" or \"hybrid\" (it is "
       "\"sgd\" by default)"},
      {"[optimizer]\nname = \"lars\"\neta = 0\n", "r.toml:3:7: optimizer.eta: 0 is out of range (allowed: > 0)"},
      {"[optimizer]\nname = \"adam\"\nbeta2 = 1\n",
       "r.toml:3:9: optimizer.beta2: 1 is out of range (allowed: >= 0 and < 1)"},
      {"[optimizer]\nname = \"adam\"\nepsilon = 0\n",
       "r.toml:3:1: optimizer.epsilon: 0 is allowed only with \"lars\"; \"adam\" would divide by 0 where all gradients "
       "are 0"},
      {"[optimizer]\naverage = 1\n", "r.toml:2:11: optimizer.average: 1 is out of range (allowed: >= 0 and < 1)"},
      {"train.epochs = 8\noptimizer.name = \"hybrid\"\n",
       "optimizer.hybrid_epochs: 10 is not below train.epochs (it is 8 at r.toml:1:7); for a shorter run set "
       "train.max_steps"},
      {"train.epochs = 90\noptimizer.name = \"hybrid\"\nschedule.warmup_epochs = 5\n",
       "r.toml:3:10: schedule.warmup_epochs: does not go with optimizer.name = \"hybrid\", which warms up by itself"},
      {"comm.codec = \"topk\"\noptimizer.name = \"lars\"\n",
       "r.toml:2:11: optimizer.name: \"lars\" does not go with comm.codec = \"topk\", which gathers the momentum of "
       "\"sgd\"; set comm.momentum_correction = false"},
  });
}

TEST(RecipeErrors, KeysThatContradictEachOther) {
  const std::string ten_epochs = "train.epochs = 10\n[schedule]\nname = \"step\"\n";
  expect_messages({
      {"[batch]\nglobal = 128\nlocal = 32\n",
       "r.toml:3:1: batch.local: contradicts batch.global (it is 128 at r.toml:2:1); give one of the two"},
      {"[train]\nepochs = 0\n",
       "r.toml:2:1: train.epochs: 0 means until train.max_steps, which is 0 too: nothing would be trained; set one of "
       "them"},
      {"[train]\nepochs = 0\nmax_steps = 3\n[schedule]\nname = \"cosine\"\n",
       "r.toml:5:1: schedule.name: \"cosine\" ends at train.epochs, which must be > 0 (it is 0 at r.toml:2:1)"},
      {"[train]\nepochs = 5\n[schedule]\nwarmup_epochs = 5\n",
       "r.toml:4:1: schedule.warmup_epochs: 5 is not below train.epochs (it is 5 at r.toml:2:1); for a shorter run set "
       "train.max_steps"},
      {ten_epochs, "r.toml:3:1: schedule.name: \"step\" needs at least one epoch in schedule.milestones"},
      {ten_epochs + "milestones = []\n",
       "r.toml:4:1: schedule.milestones: \"step\" needs at least one epoch in schedule.milestones"},
      {"[batch]\nmilestones = [3]\nsizes = [256, 512]\n",
       "r.toml:3:1: batch.sizes: 1 in batch.milestones, 2 in batch.sizes: give one size for each milestone"},
      {"train.epochs = 9\n[batch]\nmilestones = [3, 2]\nsizes = [256, 512]\n",
       "r.toml:3:1: batch.milestones: 2 follows 3: each must be greater than the one before"},
      {"train.epochs = 9\n[batch]\nmilestones = [3]\nsizes = [256.5]\n",
       "r.toml:4:1: batch.sizes: 256.5 is no whole number of samples"},
      {"train.epochs = 2\n[batch]\nmilestones = [3]\nsizes = [256]\n",
       "r.toml:3:1: batch.milestones: 3 is not below train.epochs (it is 2 at r.toml:1:7); for a shorter run set "
       "train.max_steps"},
      {"[batch]\nlocal = \"auto\"\n",
       "r.toml:2:1: batch.local: \"auto\" looks for the largest batch that fits into a GPU's memory: give a number"},
      {"train.epochs = 9\ntrain.device = \"cuda\"\n[batch]\nlocal = \"auto\"\nmilestones = [3]\nsizes = [256]\n",
       "r.toml:5:1: batch.milestones: \"auto\" is the batch of a whole run (it is \"auto\" at r.toml:4:1)"},
      {"[batch]\nlocal = 8\nfill = 8\n",
       "r.toml:3:1: batch.fill: applies only with batch.global: with batch.local every rank has its share (it is 8 at "
       "r.toml:2:1)"},
      {"train.epochs = 9\n[batch]\nmilestones = [3]\nsizes = [256]\nfill = 8\nfills = [8, 16]\n",
       "r.toml:6:1: batch.fills: 1 in batch.milestones, 2 in batch.fills: give one for each milestone, or none"},
      {"train.epochs = 9\n[batch]\nmilestones = [3]\nsizes = [256]\nfill = 8\nfills = [8.5]\n",
       "r.toml:6:1: batch.fills: 8.5 is no whole number of samples"},
      {"train.epochs = 9\n[schedule]\nname = \"polynomial\"\ndecay_from = \"warmup_end\"\n",
       "r.toml:4:1: schedule.decay_from: \"warmup_end\" applies only with schedule.warmup_epochs > 0 (it is 0 by "
       "default)"},
      {"train.epochs = 9\n[schedule]\nname = \"polynomial\"\nmilestones = [3]\n",
       "r.toml:4:1: schedule.milestones: 1 in schedule.milestones, 0 in schedule.rates: give one rate for each "
       "milestone"},
      {"train.epochs = 9\n[schedule]\nname = \"polynomial\"\nmilestones = [3]\nrates = [1, 2]\n",
       "r.toml:5:1: schedule.rates: 1 in schedule.milestones, 2 in schedule.rates: give one rate for each milestone"},
      {"train.epochs = 9\n[schedule]\nname = \"polynomial\"\nwarmup_epochs = 4\nmilestones = [3]\nrates = [1]\n",
       "r.toml:5:1: schedule.milestones: 3 lies inside the warm-up, schedule.warmup_epochs (it is 4 at r.toml:4:1)"},
      {"comm.codec = \"topk\"\noptimizer.nesterov = true\n",
       "r.toml:2:11: optimizer.nesterov: does not go with comm.codec = \"topk\", which gathers the momentum itself; "
       "leave nesterov out or set comm.momentum_correction = false"},
      {"[comm]\ncodec = \"topk\"\nmomentum_correction = true\nerror_feedback = false\n",
       "r.toml:3:1: comm.momentum_correction: needs comm.error_feedback (it is false at r.toml:4:1)"},
      {"[comm]\ndensity = 0.1\n",
       "r.toml:2:1: comm.density: applies only with comm.codec = \"topk\" (it is \"none\" by default)"},
      {ten_epochs + "milestones = [3, 3]\n",
       "r.toml:4:1: schedule.milestones: 3 follows 3: each must be greater than the one before"},
      {ten_epochs + "milestones = [3, 10]\n",
       "r.toml:4:1: schedule.milestones: 10 is not below train.epochs (it is 10 at r.toml:1:7); for a shorter run set "
       "train.max_steps"},
      {ten_epochs + "milestones = [3]\nwarmup_epochs = 4\n",
       "r.toml:4:1: schedule.milestones: 3 lies inside the warm-up, schedule.warmup_epochs (it is 4 at r.toml:5:1)"},
  });
}

TEST(RecipeErrors, OnTheCommandLine) {
  expect_messages({
      {"", "--set train.seed: expected section.key=value, such as --set train.epochs=2", {"train.seed"}},
      {"", "--set seed=3: expected section.key=value, such as --set train.epochs=2", {"seed=3"}},
      {"", "--set : expected section.key=value, such as --set train.epochs=2", {""}},
      {"",
       "--set trian.seed=3: trian: unknown section; did you mean 'train'? (see 'paceline recipe keys')",
       {"trian.seed=3"}},
      {"",
       "--set train.sed=3: train.sed: unknown key; did you mean 'seed'? (see 'paceline recipe keys')",
       {"train.sed=3"}},
      {"", "--set train.a.b=1: train.a.b: unknown key (see 'paceline recipe keys')", {"train.a.b=1"}},
      {"", "--set train.seed=x: train.seed: expected an integer, found the text \"x\"", {"train.seed=x"}},
      {"", "--set train.seed=: train.seed: has no value", {"train.seed="}},
      {"",
       "--set train.seed=[1: train.seed: not valid TOML: Error while parsing array: encountered end-of-file",
       {"train.seed=[1"}},
      {"", "--set train.seed=1\nx=2: train.seed: expected one value, found several lines", {"train.seed=1\nx=2"}},
      {"", "--set optimizer.rate=-1: optimizer.rate: -1 is out of range (allowed: > 0)", {"optimizer.rate=-1"}},
      {"", "--set train.seed=2: train.seed: is set twice on the command line", {"train.seed=1", "train.seed=2"}},
      {"",
       "--set batch.local=1: batch.local: contradicts batch.global (it is 2 at --set batch.global=2); give one of the "
       "two",
       {"batch.local=1", "batch.global=2"}},
      {"[optimizer]\nnesterov = true\n",
       "r.toml:2:1: optimizer.nesterov: applies only with optimizer.momentum > 0 (it is 0 at --set "
       "optimizer.momentum=0)",
       {"optimizer.momentum=0"}},
  });
}

TEST(RecipeErrors, AllAreReportedInTheOrderOfTheFile) {
  expect_messages({{"[train]\nseed = -1\nepoch = 1\n[model]\ninit = 1\n",
                    "r.toml:2:8: train.seed: -1 is out of range (allowed: >= 0)\n"
                    "r.toml:3:1: train.epoch: unknown key; did you mean 'epochs'? (see 'paceline recipe keys')\n"
                    "r.toml:5:8: model.init: expected text in quotes, found the integer 1\n"
                    "--set data.nam=x: data.nam: unknown key; did you mean 'name'? (see 'paceline recipe keys')",
                    {"data.nam=x"}}});
}

}  // namespace
}  // namespace paceline
