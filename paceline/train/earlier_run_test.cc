#include "paceline/train/earlier_run.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/sha256.h"
#include "paceline/core/test_folder.h"
#include "paceline/train/test_network.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

Recipe recipe(const std::vector<std::string>& overrides) {
  return tiny_recipe("[optimizer]\nrate = 0.01\n[train]\nepochs = 2\nthreads = 1\n", overrides);
}

class EarlierRunTest : public ::testing::Test {
 protected:
  Summary train(int ranks, const std::filesystem::path& folder, bool resume,
                const std::vector<std::string>& overrides) {
    Summary summary;
    Log log([&](std::string_view line) { told_ += std::string(line) + "\n"; });
    run_ranks(ranks, [&](Group& group) {
      Trainer trainer(recipe(overrides), group,
                      {.run_folder = {folder},
                       .resume = resume,
                       .log = group.rank() == 0 ? &log : nullptr,
                       .catalog = catalog_with_tiny()});
      const Summary own = trainer.run();
      if (group.rank() == 0) summary = own;
    });
    return summary;
  }

  void write_checksums(const std::filesystem::path& checkpoint) {
    std::string sums;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint))
      if (const std::string name = entry.path().filename(); name != "SHA256SUMS")
        sums += sha256_of_file(entry.path()) + "  " + name + "\n";
    replace_file(checkpoint / "SHA256SUMS", sums);
  }

  const TestFolder folder_;
  const std::vector<std::string> short_ = {"train.max_steps=3"};
  std::string told_;
};

// The run's own copies are for people.
TEST_F(EarlierRunTest, GoesOnBitForBitWhateverBecameOfRecipeAndPlan) {
  const std::string whole = train(2, folder_.path() / "whole", false, {}).weights_sha256;
  for (const char* name : {"recipe.toml", "plan.json"}) {
    for (const char* text : {"gone", "", "rate = 7", "{}"}) {
      const RunFolder run = {folder_.path() / fmt::format("{}-{}", name, text)};
      train(2, run.root, false, short_);
      const std::filesystem::path file = run.root / name;
      const std::string before = read_file(file);
      if (text == std::string_view("gone")) {
        std::filesystem::remove(file);
      } else {
        replace_file(file, text);
      }
      EXPECT_TRUE(run.holds_a_run());
      told_.clear();
      EXPECT_EQ(train(2, run.root, true, short_).weights_sha256.size(), 64u);
      EXPECT_EQ(read_file(file), before) << name << ": " << text;
      EXPECT_THAT(told_, Not(HasSubstr("warning"))) << name << ": " << text;
      EXPECT_EQ(train(2, run.root, true, {}).weights_sha256, whole) << name << ": " << text;
      EXPECT_THAT(told_, HasSubstr("the recipe has changed since the run began: train.max_steps: 3 -> 0"));
    }
  }
}

TEST_F(EarlierRunTest, AChangedOptimizerIsRefusedWithoutTheRunsRecipe) {
  train(1, folder_.path(), false, short_);
  std::filesystem::remove(folder_.path() / "recipe.toml");
  EXPECT_THAT([&] { train(1, folder_.path(), true, {"optimizer.name=lars"}); },
              ThrowsMessage<RecipeError>(HasSubstr("the run began with sgd")));
}

TEST_F(EarlierRunTest, ACheckpointWithoutARecipeHasThatOfItsRun) {
  const RunFolder run = {folder_.path()};
  train(2, run.root, false, short_);
  const std::filesystem::path checkpoint = run.checkpoints() / "step-00000003";
  std::filesystem::remove(checkpoint / "recipe.toml");
  std::filesystem::remove(checkpoint / "plan.json");
  write_checksums(checkpoint);
  const EarlierRun earlier = find_earlier_run(run);
  EXPECT_EQ(print_recipe(*earlier.recipe), read_file(run.recipe()));
  EXPECT_EQ(earlier.plan, read_file(run.plan()));
  std::filesystem::remove(run.recipe());
  EXPECT_THROW(find_earlier_run(run), Error) << "nothing tells what the checkpoint is of";
}

TEST_F(EarlierRunTest, ANewRunIsNotMixedWithTheOneThatIsThere) {
  train(1, folder_.path(), false, short_);
  EXPECT_THAT([&] { train(1, folder_.path(), false, short_); },
              ThrowsMessage<UsageError>(HasSubstr("holds checkpoints of a run already")));
}

TEST_F(EarlierRunTest, APositionThatTheRecipeCannotLeadToIsRefused) {
  train(1, folder_.path(), false, short_);
  const std::filesystem::path checkpoint = folder_.path() / "checkpoints" / "step-00000003";
  const std::string sound = read_file(checkpoint / "state.json");
  for (const uint64_t samples : {2, 301}) {
    auto state = nlohmann::json::parse(sound);
    state["cursor_samples"] = samples;
    for (const char* sum : {"window_steps", "window_samples", "window_correct"}) state[sum] = 0;
    replace_file(checkpoint / "state.json", state.dump());
    write_checksums(checkpoint);
    EXPECT_THAT([&] { train(1, folder_.path(), true, {}); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("state.json"), HasSubstr("samples after 3 steps"))))
        << samples;
  }
}

TEST_F(EarlierRunTest, TheRunsOwnRecipeMustBeAsItWasWritten) {
  const RunFolder run = {folder_.path()};
  EXPECT_NO_THROW(require_recipe_as_written(run)) << "no run yet";
  train(1, run.root, false, {"train.max_steps=6", "checkpoint.every_steps=3"});
  require_recipe_as_written(run);
  const std::string sound = read_file(run.recipe());
  std::string changed = sound;
  changed.replace(changed.find("rate = 0.01"), 11, "rate = 0.81");
  for (const int damaged : {0, 1}) {  // then the copy of the newest counts for nothing
    if (damaged == 1) replace_file(run.checkpoints() / "step-00000006" / "recipe.toml", changed);
    replace_file(run.recipe(), changed);
    EXPECT_THAT([&] { require_recipe_as_written(run); },
                ThrowsMessage<RecipeError>(AllOf(HasSubstr("optimizer.rate: 0.01 -> 0.81"),
                                                 HasSubstr(damaged == 1 ? "step-00000003" : "step-00000006"))));
    replace_file(run.recipe(), "");
    EXPECT_THROW(require_recipe_as_written(run), RecipeError);
    replace_file(run.recipe(), sound + "\n# a remark\n");
    EXPECT_NO_THROW(require_recipe_as_written(run));
  }
}

}  // namespace
}  // namespace paceline
