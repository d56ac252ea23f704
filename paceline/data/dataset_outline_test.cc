#include "paceline/data/dataset_outline.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(DatasetOutline, KnowsEveryBuiltinDatasetWithoutItsFiles) {
  for (const std::string& name : builtin_datasets().names()) {
    Recipe recipe;
    recipe.data.name = name;
    recipe.data.root = "/nowhere";
    EXPECT_NE(dataset_outline(recipe.data), nullptr) << name;
  }
  Recipe own;
  own.data.name = "own";
  EXPECT_EQ(dataset_outline(own.data), nullptr);
}

TEST(DatasetOutline, IsWhatOpeningTells) {
  const Registry<DatasetInfo> datasets = builtin_datasets();
  Recipe recipe;
  recipe.data.name = "synthetic";
  recipe.data.classes = 7;
  recipe.data.channels = 2;
  recipe.data.image_size = 9;
  const auto same = [&](const Dataset& opened) {
    const auto outline = dataset_outline(recipe.data);
    EXPECT_EQ(outline->shape().channels, opened.shape().channels) << recipe.data.name;
    EXPECT_EQ(outline->shape().height, opened.shape().height) << recipe.data.name;
    EXPECT_EQ(outline->shape().width, opened.shape().width) << recipe.data.name;
    EXPECT_EQ(outline->classes(), opened.classes()) << recipe.data.name;
  };
  same(*open_dataset(datasets, "synthetic",
                     {.train_samples = 1, .test_samples = 1, .classes = 7, .channels = 2, .image_size = 9})
            .train);
  for (const std::string& name : datasets.names()) {  // those that are here
    recipe.data.name = name;
    bool here = false;
    for (const auto& root : datasets.at(name).default_roots) here = here || std::filesystem::is_directory(root);
    if (here) same(*open_dataset(datasets, name, {}).train);
  }
}

}  // namespace
}  // namespace paceline
