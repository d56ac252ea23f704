#include "paceline/collectives/reduction_plan.h"

#include <gtest/gtest.h>

#include "paceline/collectives/platforms.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

const std::vector<size_t> kCounts = {10, 400'000, 20};

ReductionPlan example() {
  const Cluster cluster = platform("gloo", 4, 1);
  return {.made_for = "4 ranks",
          .algorithms = make_plan(cluster, cluster.default_grid(), nullptr),
          .buckets = plan_buckets(kCounts, 1 << 20, 1 << 20)};
}

TEST(ReductionPlan, ComesBackFromItsText) {
  EXPECT_EQ(parse_reduction_plan(print_reduction_plan(example())), example());
}

TEST(ReductionPlan, ServesWhatItWasMadeForAndNothingElse) {
  EXPECT_TRUE(example().serves("4 ranks", kCounts));
  EXPECT_FALSE(example().serves("5 ranks", kCounts));
  EXPECT_FALSE(example().serves("4 ranks", std::vector<size_t>{10, 400'000, 21}));
  EXPECT_FALSE(example().serves("4 ranks", std::vector<size_t>{10, 400'000}));
}

TEST(ReductionPlan, RefusesATextThatIsNone) {
  for (const char* text : {"", "{}", "[1]", R"({"made_for": 3})"}) {
    EXPECT_THROW(parse_reduction_plan(text), DataError) << text;
  }
}

}  // namespace
}  // namespace paceline
