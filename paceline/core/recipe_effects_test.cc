// Keys without effect in a mode of a run, with the whole message that the recipe's author reads. That no other key is
// ignored is for serving/keys_and_modes_test.cc to show.
#include "paceline/core/recipe_effects.h"

#include <gmock/gmock.h>

#include "paceline/core/file.h"
#include "paceline/core/stored_recipe.h"
#include "paceline/core/test_folder.h"
#include "paceline/core/test_recipe_messages.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(const std::vector<std::string>& keys, const std::string& file = "") {
  try {
    parse_recipe(file, "r.toml", keys);
    return "";
  } catch (const RecipeError& error) {
    return error.what();
  }
}

TEST(RecipeEffects, ARefusalTellsWhyAndWhatToDo) {
  const std::string bsp = "[sync]\npolicy = \"bsp\"\n";
  expect_messages({
      {bsp + "[batch_norm]\nstatistics = \"last_iteration\"\n",
       "r.toml:4:1: batch_norm.statistics: has no effect on a parameter server: workers keep moving averages, and the "
       "evaluation uses their mean (sync.policy is \"bsp\" at r.toml:2:1)"},
      {"[model]\nname = \"resnet20\"\ndropout = 0.1\n",
       "r.toml:3:1: model.dropout: has no effect in a model without dropout: vgg16, vgg16_bn, alexnet and alexnet_bn "
       "have some (model.name is \"resnet20\" at r.toml:2:1)"},
      {"[sync]\npolicy = \"adaptive_k\"\nk = 2\n",
       "r.toml:3:1: sync.k: has no effect with sync.policy = \"adaptive_k\" and a sync.rule other than \"fixed\": the "
       "rule chooses k; bound it with sync.k_min and sync.k_max, or set sync.rule = \"fixed\" (sync.rule is \"time\" "
       "by "
       "default)"},
      {"[optimizer]\nnesterov = true\n[sync]\npolicy = \"asp\"\n",
       "r.toml:2:1: optimizer.nesterov: has no effect with sync.policy = \"asp\" or \"ssp\": the server's momentum is "
       "0 (sync.policy is \"asp\" at r.toml:4:1)"},
  });
}

TEST(RecipeEffects, KeysOfTheFileMakeRoomForAnotherModeOnTheCommandLine) {
  const std::string file = "[optimizer]\nnesterov = true\n[comm]\nalgorithm = \"ring\"\n";
  const Recipe recipe = parse_recipe(file, "r.toml", {"sync.policy=asp"});
  EXPECT_FALSE(recipe.optimizer.nesterov);
  EXPECT_EQ(recipe.comm.algorithm, "hybrid");
  EXPECT_FALSE(recipe.written.contains("comm.algorithm"));
  EXPECT_THAT(refusal({"sync.policy=asp", "comm.algorithm=ring"}), HasSubstr("comm.algorithm: has no effect"));
  EXPECT_EQ(refusal({"model.name=resnet20"}, "model = {name = \"vgg16\", dropout = 0.1}"), "");
}

TEST(RecipeEffects, OfModels) {
  EXPECT_THAT(refusal({"model.name=small_cnn", "model.zero_gamma=true"}), HasSubstr("model.zero_gamma: has no"));
  EXPECT_EQ(refusal({"model.name=small_cnn", "model.zero_gamma=false", "model.dropout=0"}), "");
  EXPECT_THAT(refusal({"model.name=vgg16", "batch_norm.sync=true"}), HasSubstr("batch_norm.sync: has no effect"));
  EXPECT_THAT(refusal({"model.name=alexnet", "batch_norm.recompute_batches=2"}), HasSubstr("batch normalisation"));
  EXPECT_EQ(refusal({"model.name=vgg16_bn", "batch_norm.sync=true", "model.dropout=0"}), "");
  EXPECT_EQ(refusal({"model.name=a_programs_own", "model.zero_gamma=false", "model.dropout=0.1"}), "");
}

TEST(RecipeEffects, OnAParameterServer) {
  for (const std::string policy : {"bsp", "asp", "ssp", "easgd", "drop_worker", "k_sync", "adaptive_k"}) {
    for (const std::string key :
         {"batch_norm.statistics=last_iteration", "batch_norm.recompute_batches=1", "batch_norm.sync=true",
          "comm.algorithm=ring", "comm.bucket_bytes=1024", "comm.engine=gloo", "optimizer.clip_norm=1",
          "optimizer.average=0.9", "precision.loss_scaling=static", "schedule.momentum=noise_scale", "batch.fill=8",
          "data.prefetch_batches=2"}) {
      const std::string name = key.substr(0, key.find('='));
      EXPECT_THAT(refusal({key, "sync.policy=" + policy}), HasSubstr(": " + name + ": has no effect on a parameter"));
      EXPECT_EQ(refusal({key}), "");
    }
  }
  for (const std::string key : {"comm.error_feedback=true", "comm.block=64"}) {
    EXPECT_THAT(refusal({key, "comm.codec=int8", "sync.policy=bsp"}), HasSubstr("has no effect on a parameter server"));
    EXPECT_EQ(refusal({key, "comm.codec=int8"}), "");
  }
}

TEST(RecipeEffects, OfSettingsOfAPolicy) {
  const std::string adaptive = "sync.policy=adaptive_k";
  EXPECT_EQ(refusal({adaptive, "sync.rule=fixed", "sync.k=2"}), "");
  EXPECT_EQ(refusal({"sync.policy=k_sync", "sync.k=2"}), "");
  for (const std::string bound : {"sync.k_min=1", "sync.k_max=3"}) {
    EXPECT_THAT(refusal({adaptive, bound, "sync.rule=fixed"}), HasSubstr("with sync.rule = \"fixed\": k is sync.k"));
    EXPECT_EQ(refusal({adaptive, bound}), "");
  }
  for (const std::string merge : {"additive", "drop", "zhang", "auto"})
    EXPECT_THAT(refusal({adaptive, "sync.history=2", "sync.merge=" + merge}), HasSubstr("sync.history: has no"));
  EXPECT_EQ(refusal({adaptive, "sync.history=2", "sync.merge=mean"}), "");
  EXPECT_EQ(refusal({adaptive, "sync.history=2", "sync.look_ahead=false"}), "");
  EXPECT_THAT(refusal({adaptive, "optimizer.nesterov=true"}), HasSubstr("sync.look_ahead is its Nesterov step"));
  EXPECT_EQ(refusal({"sync.policy=drop_worker", "optimizer.nesterov=true"}), "");
}

TEST(RecipeEffects, WhereParametersTravelInOnePiece) {
  EXPECT_THAT(refusal({"sync.policy=easgd", "comm.codec=int8"}), HasSubstr("comm.codec: has no effect with"));
  for (const std::string policy : {"local_sgd", "stale_allreduce"}) {
    EXPECT_THAT(refusal({"sync.policy=" + policy, "comm.bucket_bytes=1024"}), HasSubstr("in one piece"));
    EXPECT_THAT(refusal({"sync.policy=" + policy, "comm.codec=fp16"}), HasSubstr("use \"none\""));
  }
  EXPECT_THAT(refusal({"sync.policy=local_sgd", "comm.overlap=true"}), HasSubstr("averaged between two steps"));
}

TEST(RecipeEffects, EveryEntryNamesKeysAndIsDocumented) {
  for (const KeyWithoutEffect& entry : keys_without_effect()) {
    ASSERT_NE(find_key(entry.key), nullptr) << entry.key;
    ASSERT_NE(find_key(entry.decides), nullptr) << entry.decides;
    EXPECT_THAT(no_effect_text(entry.key), HasSubstr(std::string(entry.where)));
  }
  EXPECT_EQ(no_effect_text("train.epochs"), "");
}

// A recipe that a program has made was not parsed.
TEST(RecipeEffects, ValuesThatAreNotDoneAreRefusedWithoutAParser) {
  Recipe recipe;
  recipe.sync.policy = "bsp";
  EXPECT_NO_THROW(require_values_of_mode(recipe));
  recipe.optimizer.clip_norm = 1;
  EXPECT_THAT([&] { require_values_of_mode(recipe); },
              ::testing::ThrowsMessage<RecipeError>(
                  StartsWith("optimizer.clip_norm: has no effect on a parameter server: gradients are not clipped")));
}

// Runs of an earlier version printed keys that are refused today.
TEST(RecipeEffects, RecipesOfARunMayHoldKeysWithoutEffect) {
  const TestFolder folder;
  const std::filesystem::path file = folder.path() / "recipe.toml";
  replace_file(file, "model = {name = \"resnet20\", dropout = 0.25}\nschedule.power = 3\n");
  EXPECT_THROW(read_recipe(file), RecipeError);
  const Recipe recipe = read_stored_recipe(file);
  EXPECT_EQ(recipe.model.dropout, 0.25);
  EXPECT_EQ(recipe.schedule.power, 3);
  replace_file(file, "model.dropout = 1\n");
  EXPECT_THROW(read_stored_recipe(file), RecipeError);
}

}  // namespace
}  // namespace paceline
