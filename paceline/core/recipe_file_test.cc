// Recipes as files: which are read, and what is said of those that are not.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/recipe.h"

namespace paceline {
namespace {

using testing::ThrowsMessage;

class RecipeFiles : public testing::Test {
 protected:
  RecipeFiles() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    replace_file(folder_ / "mnist.toml", "train.seed = 5\n");
  }
  ~RecipeFiles() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("paceline_recipe_test_" + std::to_string(::getpid()));
  const std::string prefix_ = folder_.string() + "/";
};

TEST_F(RecipeFiles, AreRead) {
  const Recipe recipe = read_recipe(folder_ / "mnist.toml", {"train.epochs=2"});
  EXPECT_EQ(recipe.train.seed, 5u);
  EXPECT_EQ(recipe.train.epochs, 2);
  EXPECT_EQ(recipe.title, "mnist");
  EXPECT_EQ(recipe.where("train.seed"), prefix_ + "mnist.toml:1:7: train.seed");
}

TEST_F(RecipeFiles, MissingOnesAreRefusedWithAdvice) {
  const auto message = [](const std::string& what) { return ThrowsMessage<RecipeError>(what); };
  EXPECT_THAT([&] { read_recipe(folder_ / "minst.toml"); },
              message(prefix_ + "minst.toml: there is no such recipe; did you mean '" + prefix_ + "mnist.toml'?"));
  EXPECT_THAT([&] { read_recipe(folder_ / "mnist"); },
              message(prefix_ + "mnist: there is no such recipe; did you mean '" + prefix_ + "mnist.toml'?"));
  EXPECT_THAT(
      [&] { read_recipe(folder_ / "something.toml"); },
      message(prefix_ + "something.toml: there is no such recipe; give the path of a TOML file (see 'paceline recipe "
                        "keys' for what it may hold)"));
  EXPECT_THAT([&] { read_recipe(folder_ / "none" / "mnist.toml"); },
              message(prefix_ + "none/mnist.toml: there is no such recipe, and no folder '" + prefix_ + "none'"));
  EXPECT_THAT([&] { read_recipe(folder_); },
              message(folder_.string() + ": is a folder; give the path of a recipe in it"));
}

TEST_F(RecipeFiles, WhatIsNoFileOfARecipesSizeIsRefusedUnread) {
  const auto message = [](const std::string& what) { return ThrowsMessage<RecipeError>(what); };
  ASSERT_EQ(::mkfifo((folder_ / "pipe.toml").c_str(), 0600), 0);
  EXPECT_THAT(
      [&] { read_recipe(folder_ / "pipe.toml"); },
      message(prefix_ + "pipe.toml: is no file but a pipe; write the recipe to a file, which every rank can read"));
  EXPECT_THAT([&] { read_recipe("/dev/zero"); },
              message("/dev/zero: is no file but a device or socket; write the recipe to a file, which every rank can "
                      "read"));
  std::ofstream(folder_ / "large.toml") << "#";
  std::filesystem::resize_file(folder_ / "large.toml", (1 << 20) + 1);
  EXPECT_THAT([&] { read_recipe(folder_ / "large.toml"); },
              message(prefix_ + "large.toml: has 1048577 bytes, a recipe at most 1048576: is it the right file?"));
}

}  // namespace
}  // namespace paceline
