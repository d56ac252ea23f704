// Every way in which a recipe can be wrong by itself, with the whole message that its author reads. What does not go
// together: recipe_contradictions_test.cc.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/core/test_recipe_messages.h"

namespace paceline {
namespace {

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
      {"[comm]\nbucket_bytes = \"4TB\"\n",
       "r.toml:2:16: comm.bucket_bytes: expected a size, such as 65536 or \"4MiB\", found the text \"4TB\""},
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
      {"[sync]\nslowdown = [1, 101]\n", "r.toml:2:16: sync.slowdown: 101 is out of range (allowed: 1 to 100)"},
      {"[sync]\nslowdown = [0.5]\n", "r.toml:2:13: sync.slowdown: 0.5 is out of range (allowed: 1 to 100)"},
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
  });
}

TEST(RecipeErrors, ATextThatIsNotClosedIsSaidSo) {
  for (const std::string text :
       {"[model]\nname = \"resnet\n", "[model]\nname = \"resnet", "[model]\nname = 'resnet\n"}) {
    try {
      parse_recipe(text, "r.toml");
      FAIL() << text;
    } catch (const RecipeError& error) {
      EXPECT_TRUE(std::string(error.what()).ends_with(": not valid TOML: the text is not closed: a quote is missing"))
          << error.what();
    }
  }
}

TEST(RecipeErrors, TheBeginningOfAWordIsEnoughToMeanIt) {
  expect_messages(
      {{"[schedule]\nname = \"cos\"\n",
        "r.toml:2:8: schedule.name: \"cos\" is not allowed; did you mean 'cosine'? (allowed: constant, step, "
        "exponential, polynomial, cosine)"}});
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
