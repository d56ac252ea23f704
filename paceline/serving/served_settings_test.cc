#include "paceline/serving/served_settings.h"

#include <gmock/gmock.h>

#include "paceline/data/memory_dataset.h"
#include "paceline/ps/run_mark.h"

namespace paceline {
namespace {

Recipe recipe_with(const std::vector<std::string>& overrides) {
  return parse_recipe("[sync]\npolicy = \"bsp\"\n", "r.toml", overrides);
}

// `size` images of one pixel, all alike but for number `changed`.
DatasetPair data_of(size_t size, size_t changed = SIZE_MAX) {
  std::vector<uint8_t> pixels(size, 7);
  if (changed < size) pixels[changed] = 8;
  const auto all =
      std::make_shared<MemoryDataset>(LabelledImages{{1, 1, 1}, 2, std::move(pixels), std::vector<int64_t>(size, 0)});
  return {.train = all, .test = all, .normalisation = {{0.5f}, {0.5f}}};
}

std::string difference(const std::vector<std::string>& overrides, const DatasetPair& data = data_of(100)) {
  return settings_difference(served_settings(recipe_with({}), data_of(100)),
                             served_settings(recipe_with(overrides), data));
}

TEST(ServedSettings, DifferWhereTheRunWouldBeAnother) {
  EXPECT_EQ(difference({}), "");
  EXPECT_EQ(difference({"optimizer.rate=0.5"}), "optimizer.rate (0.1 here, 0.5 there)");
  EXPECT_EQ(difference({"train.seed=2"}), "train.seed (1 here, 2 there)");
  EXPECT_EQ(difference({}, data_of(99)), "training samples (100 here, 99 there)");
  EXPECT_THAT(difference({"sync.policy=ssp"}), testing::HasSubstr("sync.policy (\"bsp\" here, \"ssp\" there)"));
}

TEST(ServedSettings, DifferWhereTheDataAreOthers) {
  DatasetPair other_scale = data_of(100);
  other_scale.normalisation.mean[0] = 0.25f;
  for (const DatasetPair& other : {data_of(100, 0), data_of(100, 99), other_scale}) {
    const std::string text = difference({}, other);
    EXPECT_THAT(text, testing::StartsWith("training samples, pixels and labels (digest "));
    EXPECT_TRUE(is_of_the_data(text));
  }
  EXPECT_FALSE(is_of_the_data(difference({"train.seed=2"}, data_of(99))));
}

TEST(ServedSettings, AreTheSameWhereOnlyOneProcessIsConcerned) {
  EXPECT_EQ(difference({"train.threads=3", "train.log_every_steps=7", "train.eval_every_epochs=2", "checkpoint.keep=9",
                        "sync.slowdown=[2]", "data.root=elsewhere", "data.loader_threads=2", "comm.overlap=false",
                        "train.target_accuracy=0.5", "data.test_samples=10"}),
            "");
}

}  // namespace
}  // namespace paceline
