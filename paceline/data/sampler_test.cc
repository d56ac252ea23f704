#include "paceline/data/sampler.h"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using testing::ElementsAreArray;
using testing::UnorderedElementsAreArray;

std::vector<uint64_t> epoch_order(const Sampler& sampler, uint64_t epoch, uint64_t size) {
  std::vector<uint64_t> order(size);
  for (uint64_t position = 0; position < size; ++position) order[position] = sampler.sample(epoch, position);
  return order;
}

std::vector<uint64_t> counting(uint64_t size) {
  std::vector<uint64_t> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(Sampler, EverySampleOnceInAnEpoch) {
  for (const uint64_t size : {1, 2, 3, 17, 100}) {
    for (const uint64_t epoch : {0, 1, 1'000'000}) {
      EXPECT_THAT(epoch_order(Sampler(1, size, true), epoch, size), UnorderedElementsAreArray(counting(size)));
    }
  }
}

TEST(Sampler, AnotherOrderForAnotherEpochAndSeed) {
  const auto order = epoch_order(Sampler(1, 50, true), 0, 50);
  EXPECT_EQ(order, epoch_order(Sampler(1, 50, true), 0, 50));
  EXPECT_NE(order, epoch_order(Sampler(1, 50, true), 1, 50));
  EXPECT_NE(order, epoch_order(Sampler(2, 50, true), 0, 50));
  EXPECT_NE(order, counting(50));
}

TEST(Sampler, InOrderWithoutShuffling) {
  for (const uint64_t epoch : {0, 5}) {
    EXPECT_THAT(epoch_order(Sampler(1, 20, false), epoch, 20), ElementsAreArray(counting(20)));
  }
}

TEST(Sampler, RefusesNoDataAndAPositionBeyondIt) {
  EXPECT_THROW(Sampler(1, 0, true), InternalError);
  EXPECT_THROW(Sampler(1, 5, true).sample(0, 5), InternalError);
  EXPECT_THROW(Sampler(1, 5, false).sample(0, 5), InternalError);
}

TEST(NextBatch, NeverStraddlesEpochs) {
  EXPECT_EQ(next_batch(0, 10, 4), (BatchRange{0, 0, 4}));
  EXPECT_EQ(next_batch(8, 10, 4), (BatchRange{0, 8, 10}));
  EXPECT_EQ(next_batch(10, 10, 4), (BatchRange{1, 0, 4}));
  EXPECT_EQ(next_batch(39, 10, 4), (BatchRange{3, 9, 10}));
}

TEST(NextBatch, OfTheWholeDataWhenItIsSmaller) {
  EXPECT_EQ(next_batch(0, 3, 100), (BatchRange{0, 0, 3}));
  EXPECT_EQ(next_batch(0, 3, std::numeric_limits<uint64_t>::max()), (BatchRange{0, 0, 3}));
  EXPECT_EQ(next_batch(7, 1, 1), (BatchRange{7, 0, 1}));
}

TEST(NextBatch, RefusesNoDataAndAnEmptyBatch) {
  EXPECT_THROW(next_batch(0, 0, 1), InternalError);
  EXPECT_THROW(next_batch(0, 1, 0), InternalError);
}

TEST(Share, RanksTakeEverythingInOrderAndNearlyEqually) {
  for (const uint64_t size : {0, 1, 2, 3, 7, 128, 1001}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const BatchRange global{.epoch = 3, .begin = 100, .end = 100 + size};
      uint64_t next = global.begin;
      for (int rank = 0; rank < ranks; ++rank) {
        const BatchRange mine = share(global, rank, ranks);
        EXPECT_EQ(mine.epoch, 3u);
        EXPECT_EQ(mine.begin, next);
        EXPECT_GE(mine.size(), size / static_cast<uint64_t>(ranks));
        EXPECT_LE(mine.size(), size / static_cast<uint64_t>(ranks) + 1);
        next = mine.end;
      }
      EXPECT_EQ(next, global.end);
    }
  }
}

TEST(Share, EmptyForTheLastRanksOfAShortBatch) {
  const BatchRange global{.epoch = 0, .begin = 5, .end = 7};
  EXPECT_EQ(share(global, 1, 4), (BatchRange{0, 6, 7}));
  EXPECT_EQ(share(global, 2, 4), (BatchRange{0, 7, 7}));
  EXPECT_EQ(share(global, 3, 4), (BatchRange{0, 7, 7}));
}

TEST(Share, RefusesARankThatIsNone) {
  EXPECT_THROW(share({}, 4, 4), InternalError);
  EXPECT_THROW(share({}, -1, 4), InternalError);
  EXPECT_THROW(share({}, 0, 0), InternalError);
}

}  // namespace
}  // namespace paceline
