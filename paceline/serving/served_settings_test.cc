#include "paceline/serving/served_settings.h"

#include <gmock/gmock.h>

#include "paceline/ps/run_mark.h"

namespace paceline {
namespace {

Recipe recipe_with(const std::vector<std::string>& overrides) {
  return parse_recipe("[sync]\npolicy = \"bsp\"\n", "r.toml", overrides);
}

std::string difference(const std::vector<std::string>& overrides, uint64_t data_size = 100) {
  return settings_difference(served_settings(recipe_with({}), 100), served_settings(recipe_with(overrides), data_size));
}

TEST(ServedSettings, DifferWhereTheRunWouldBeAnother) {
  EXPECT_EQ(difference({}), "");
  EXPECT_EQ(difference({"optimizer.rate=0.5"}), "optimizer.rate (0.1 here, 0.5 there)");
  EXPECT_EQ(difference({"train.seed=2"}), "train.seed (1 here, 2 there)");
  EXPECT_EQ(difference({}, 99), "training samples (100 here, 99 there)");
  EXPECT_THAT(difference({"sync.policy=ssp"}), testing::HasSubstr("sync.policy (\"bsp\" here, \"ssp\" there)"));
}

TEST(ServedSettings, AreTheSameWhereOnlyOneProcessIsConcerned) {
  EXPECT_EQ(difference({"train.threads=3", "train.log_every_steps=7", "train.eval_every_epochs=2", "checkpoint.keep=9",
                        "sync.slowdown=[2]", "data.root=elsewhere", "data.loader_threads=2", "comm.overlap=false",
                        "train.target_accuracy=0.5", "data.test_samples=10"}),
            "");
}

}  // namespace
}  // namespace paceline
