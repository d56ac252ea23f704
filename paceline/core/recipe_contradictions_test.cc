// Keys that have no effect, or do not go together, with the whole message that the recipe's author reads.
#include "paceline/core/test_recipe_messages.h"

namespace paceline {
namespace {

TEST(RecipeContradictions, KeysWithoutEffect) {
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

TEST(RecipeContradictions, Precision) {
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

TEST(RecipeContradictions, WhatAnOverrideLeavesWithoutEffectIsLeftOut) {
  const std::string file = "[optimizer]\nrate = 0.5\nmomentum = 0.8\nnesterov = true\n";
  for (const char* optimizer : {"adam", "lars"}) {
    const Recipe recipe = parse_recipe(file, "r.toml", {std::string("optimizer.name=") + optimizer});
    EXPECT_FALSE(recipe.optimizer.nesterov) << optimizer;
    EXPECT_FALSE(recipe.written.contains("optimizer.nesterov"));
    EXPECT_EQ(recipe.optimizer.rate, 0.5);
    const bool has_momentum = std::string(optimizer) == "lars";
    EXPECT_EQ(recipe.optimizer.momentum, has_momentum ? 0.8 : Recipe().optimizer.momentum) << optimizer;
    EXPECT_EQ(recipe.written.contains("optimizer.momentum"), has_momentum) << optimizer;
  }
  const Recipe without = parse_recipe(file, "r.toml", {"optimizer.momentum=0"});
  EXPECT_FALSE(without.optimizer.nesterov);
  const Recipe steps =
      parse_recipe("[schedule]\nname = \"step\"\nmilestones = [1]\nfactor = 0.5\n[train]\nepochs = 2\n", "r.toml",
                   {"schedule.name=default"});
  EXPECT_TRUE(steps.schedule.milestones.empty());
}

// Only the file's keys: what the command line itself says must have an effect.
TEST(RecipeContradictions, OverridesAreNotLeftOut) {
  expect_messages(
      {{"[optimizer]\nmomentum = 0.8\n",
        "--set optimizer.momentum=0.5: optimizer.momentum: applies only with optimizer.name other than \"adam\" "
        "or \"adamw\" or \"adabound\" (it is \"adam\" at --set optimizer.name=adam)",
        {"optimizer.name=adam", "optimizer.momentum=0.5"}}});
}

TEST(RecipeContradictions, AWarmUpLongerThanAShortenedRunSaysWhatToDo) {
  expect_messages(
      {{"[train]\nepochs = 5\n[schedule]\nwarmup_epochs = 0.5\n",
        "r.toml:4:1: schedule.warmup_epochs: 0.5 is not below train.epochs (it is 0.5 at --set "
        "train.epochs=0.5); for a short try add --set schedule.warmup_epochs=0, for the beginning of the whole "
        "run take --set train.max_steps=N instead",
        {"train.epochs=0.5"}}});
}

TEST(RecipeContradictions, MomentaWithoutEffect) {
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

TEST(RecipeContradictions, FoundRates) {
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

TEST(RecipeContradictions, Optimizers) {
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

TEST(RecipeContradictions, KeysThatContradictEachOther) {
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

}  // namespace
}  // namespace paceline
