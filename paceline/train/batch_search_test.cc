#include "paceline/train/batch_search.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

TEST(BatchSearch, FindsTheLargestPowerOf2ThatFits) {
  for (const int64_t limit : {0, 1, 2, 3, 100, 1024, 5000}) {
    int refused = 0;
    const int64_t found = largest_power_of_2(1024, [&](int64_t samples) {
      refused += samples > limit ? 1 : 0;
      return samples <= limit;
    });
    int64_t expected = 0;
    for (int64_t power = 1; power <= std::min<int64_t>(limit, 1024); power *= 2) expected = power;
    EXPECT_EQ(found, expected) << limit;
    EXPECT_LE(refused, 1) << limit;
  }
}

TEST(BatchSearch, StaysBelowTheMostThereIs) {
  EXPECT_EQ(largest_power_of_2(100, [](int64_t) { return true; }), 64);
  EXPECT_EQ(largest_power_of_2(0, [](int64_t) { return true; }), 0);
}

TEST(BatchSearch, LeavesARecipeWithANumberAlone) {
  const auto group = make_local_group();
  const Recipe recipe = parse_recipe("batch.local = 48", "r.toml");
  EXPECT_EQ(with_batch_that_fits(recipe, {}, *group, 32, nullptr).batch.local, 48);
}

TEST(BatchSearch, GoesOnWithTheBatchThatARunHasHad) {
  const Recipe recipe = parse_recipe("batch.local = \"auto\"\ntrain.device = \"cuda\"", "r.toml");
  run_ranks(2, [&](Group& group) {
    const int64_t before = group.rank() == 0 ? 96 : 0;  // only rank 0 has the run's folder
    EXPECT_EQ(with_batch_that_fits(recipe, {}, group, before, nullptr).batch.local, 96);
  });
}

}  // namespace
}  // namespace paceline
