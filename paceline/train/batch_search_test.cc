#include "paceline/train/batch_search.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

TEST(BatchSearch, FindsTheLargestThatFitsToAnEighth) {
  for (const int64_t most : {1, 7, 100, 1024}) {
    for (int64_t limit = 0; limit <= 1100; ++limit) {
      int asked = 0;
      const int64_t found = largest_that_fits(most, [&](int64_t samples) {
        EXPECT_LE(samples, most);
        ++asked;
        return samples <= limit;
      });
      const int64_t best = std::min(limit, most);
      ASSERT_LE(found, best) << limit << " of " << most;
      ASSERT_LT(best - found, std::max<double>(1, best / 8.0)) << limit << " of " << most;
      EXPECT_LE(asked, 15);
    }
  }
}

TEST(BatchSearch, FindsBatchesThatKernelsLike) {
  EXPECT_EQ(largest_that_fits(1 << 16, [](int64_t samples) { return samples <= 2000; }), 1024 + 7 * 128);
  EXPECT_EQ(largest_that_fits(1 << 16, [](int64_t samples) { return samples <= 2048; }), 2048);
  EXPECT_EQ(largest_that_fits(1 << 16, [](int64_t) { return true; }), 1 << 16);
}

TEST(BatchSearch, TakesTheLeastOfAllRanks) {
  const Recipe recipe = parse_recipe("batch.local = \"auto\"\ntrain.device = \"cuda\"", "r.toml");
  run_ranks(3, [&](Group& group) {
    const auto look = [&] { return int64_t{64} << group.rank(); };
    EXPECT_EQ(with_batch_that_fits(recipe, group, 0, nullptr, look).batch.local, 64);
  });
}

TEST(BatchSearch, RefusesWhereNotEvenOneSampleFits) {
  const Recipe recipe = parse_recipe("batch.local = \"auto\"\ntrain.device = \"cuda\"", "r.toml");
  run_ranks(2, [&](Group& group) {
    const auto look = [&] { return int64_t{group.rank() == 0 ? 8 : 0}; };
    EXPECT_THAT([&] { with_batch_that_fits(recipe, group, 0, nullptr, look); },
                testing::ThrowsMessage<RecipeError>(testing::HasSubstr("not even one sample fits")));
  });
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
