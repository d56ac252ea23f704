#include "paceline/ps/coverage.h"

#include <gmock/gmock.h>

#include "paceline/core/random.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Coverage, RefusesWhatIsThereAndKeepsItsNumbers) {
  Coverage coverage;
  EXPECT_TRUE(coverage.add(10, 10));
  EXPECT_FALSE(coverage.add(19, 1));
  EXPECT_FALSE(coverage.add(5, 6));
  EXPECT_FALSE(coverage.add(0, 100));
  EXPECT_TRUE(coverage.add(20, 5));
  EXPECT_TRUE(coverage.add(0, 5));
  EXPECT_TRUE(coverage.add(7, 0));
  EXPECT_EQ(coverage.covered(), 20u);
  EXPECT_EQ(coverage.runs(), 2u);
  EXPECT_THAT(coverage.missing(0, 30), ElementsAre(Pair(5, 5), Pair(25, 5)));
  EXPECT_THAT(coverage.missing(3, 8), ElementsAre(Pair(5, 3)));
  EXPECT_THAT(coverage.missing(12, 20), ElementsAre());
}

TEST(Coverage, IsThatOfAListOfFlags) {
  const RandomKey key(7);
  for (uint64_t round = 0; round < 50; ++round) {
    Coverage coverage;
    std::vector<bool> there(60, false);
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t begin = key.with(round).below(2 * i, 60), count = key.with(round).below(2 * i + 1, 61 - begin) % 8;
      bool fresh = true;
      for (uint64_t at = begin; at < begin + count; ++at) fresh = fresh && !there[at];
      ASSERT_EQ(coverage.add(begin, count), fresh);
      for (uint64_t at = begin; fresh && at < begin + count; ++at) there[at] = true;
    }
    std::vector<bool> left(60, true);
    for (const auto& [begin, count] : coverage.missing(0, 60)) {
      for (uint64_t at = begin; at < begin + count; ++at) left[at] = false;
    }
    EXPECT_EQ(left, there);
    EXPECT_EQ(coverage.covered(), static_cast<uint64_t>(std::ranges::count(there, true)));
  }
}

}  // namespace
}  // namespace paceline
