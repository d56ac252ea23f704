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

TEST(NextBatch, TheEpochAtItsFirstSampleDecidesItsSize) {
  const BatchSchedule phases = BatchPhases{3, {0.5, 1}, {2, 4}};
  EXPECT_EQ(next_batch(0, 10, phases), (BatchRange{0, 0, 3}));
  EXPECT_EQ(next_batch(3, 10, phases), (BatchRange{0, 3, 6}));  // over the milestone, as it began
  EXPECT_EQ(next_batch(5, 10, phases), (BatchRange{0, 5, 7}));
  EXPECT_EQ(next_batch(9, 10, phases), (BatchRange{0, 9, 10}));
  EXPECT_EQ(next_batch(10, 10, phases), (BatchRange{1, 0, 4}));
  EXPECT_EQ(next_batch(18, 10, phases), (BatchRange{1, 8, 10}));
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

TEST(Share, OnlyTheFirstRanksAreActive) {
  const BatchRange global{.epoch = 2, .begin = 10, .end = 17};
  EXPECT_EQ(share(global, 0, 4, 2), (BatchRange{2, 10, 14}));
  EXPECT_EQ(share(global, 1, 4, 2), (BatchRange{2, 14, 17}));
  EXPECT_EQ(share(global, 2, 4, 2), (BatchRange{2, 17, 17}));
  EXPECT_EQ(share(global, 3, 4, 2), (BatchRange{2, 17, 17}));
}

TEST(Share, RefusesARankThatIsNone) {
  EXPECT_THROW(share({}, 0, 4, 5), InternalError);
  EXPECT_THROW(share({}, 0, 4, 0), InternalError);
  EXPECT_THROW(share({}, 4, 4), InternalError);
  EXPECT_THROW(share({}, -1, 4), InternalError);
  EXPECT_THROW(share({}, 0, 0), InternalError);
}

TEST(ActiveRanks, AsManyAsTheBatchFills) {
  EXPECT_EQ(active_ranks(64, 16, 8), 4);
  EXPECT_EQ(active_ranks(65, 16, 8), 5);
  EXPECT_EQ(active_ranks(128, 16, 8), 8);
  EXPECT_EQ(active_ranks(1000, 16, 8), 8);
  EXPECT_EQ(active_ranks(1, 16, 8), 1);
  EXPECT_EQ(active_ranks(0, 16, 8), 1);
  EXPECT_EQ(active_ranks(1, 0, 8), 8);
  EXPECT_EQ(active_ranks(std::numeric_limits<uint64_t>::max(), 1, 3), 3);
}

TEST(LargestShare, IsTheLargestOfAnyBatch) {
  for (const uint64_t fill : {0, 1, 2, 3, 5, 8, 100}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (uint64_t largest_batch = 1, seen = 0; largest_batch <= 30; ++largest_batch) {
        const BatchRange batch{.epoch = 0, .begin = 0, .end = largest_batch};
        seen = std::max(seen, share(batch, 0, ranks, active_ranks(largest_batch, fill, ranks)).size());
        EXPECT_EQ(largest_share(largest_batch, fill, ranks), seen) << fill << ' ' << ranks << ' ' << largest_batch;
      }
    }
  }
}

// ---- whole trainings --------------------------------------------------------------------------------------------

const std::vector<BatchPhases> kPhases = {
    {7, {}, {}},      {3, {0.5}, {8}}, {8, {1}, {2}}, {2, {0.3, 0.31, 1.7}, {9, 4, 50}}, {1, {1. / 3, 2. / 3}, {2, 3}},
    {100, {2.5}, {5}}};

// Takes batches from the cursor on until it stands at `until` or beyond, and appends what all ranks get.
uint64_t take_batches(const Sampler& sampler, uint64_t size, const BatchSchedule& batches, uint64_t fill, int ranks,
                      uint64_t cursor, uint64_t until, std::vector<std::vector<uint64_t>>& epochs) {
  while (cursor < until) {
    const BatchRange global = next_batch(cursor, size, batches);
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchRange mine = share(global, rank, ranks, active_ranks(global.size(), fill, ranks));
      for (uint64_t position = mine.begin; position < mine.end; ++position)
        epochs.at(mine.epoch).push_back(sampler.sample(mine.epoch, position));
    }
    cursor += global.size();
  }
  return cursor;
}

TEST(Sampling, EverySampleOncePerEpochAlsoWhenRanksComeAndGo) {
  const struct { int before, after; } changes[] = {{4, 3}, {2, 4}, {1, 5}, {3, 3}};
  for (const BatchPhases& phases : kPhases) {
    for (const uint64_t fill : {0, 1, 2, 4, 100}) {
      for (const auto& [before, after] : changes) {
        for (const uint64_t size : {1, 10, 23}) {
          const Sampler sampler(5, size, true);
          for (uint64_t change = 0; change < 3 * size; change += 4) {
            std::vector<std::vector<uint64_t>> epochs(3);
            uint64_t cursor = take_batches(sampler, size, phases, fill, before, 0, change, epochs);
            cursor = take_batches(sampler, size, phases, fill, after, cursor, 3 * size, epochs);
            EXPECT_EQ(cursor, 3 * size);
            for (const auto& epoch : epochs) EXPECT_THAT(epoch, UnorderedElementsAreArray(counting(size)));
          }
        }
      }
    }
  }
}

TEST(StepsIn, AgreesWithCountingThem) {
  for (const BatchPhases& phases : kPhases) {
    for (const uint64_t size : {1, 2, 3, 10, 23, 30, 64}) {
      uint64_t steps = 0, end = 0;
      for (uint64_t total = 0; total <= 4 * size; ++total) {
        while (end < total) {
          end += next_batch(end, size, phases).size();
          EXPECT_EQ(samples_in(phases, size, ++steps), end) << size << ' ' << total;
        }
        EXPECT_EQ(steps_in(phases, size, total), steps) << size << ' ' << total;
      }
    }
  }
}

// Milestones that no double hits exactly: the count must round as next_batch() does.
TEST(StepsIn, AgreesAtMilestonesThatRound) {
  for (uint64_t tenths = 1; tenths < 30; ++tenths) {
    const BatchSchedule batches = BatchPhases{3, {static_cast<double>(tenths) * 0.1}, {7}};
    const uint64_t size = 1000;
    uint64_t steps = 0;
    for (uint64_t cursor = 0; cursor < 3 * size; ++steps) cursor += next_batch(cursor, size, batches).size();
    EXPECT_EQ(steps_in(batches, size, 3 * size), steps) << tenths;
  }
}

// Mikami, Exp. 1: 34K up to epoch 30, then 68K, for 90 epochs of ImageNet.
TEST(StepsIn, OfAPublishedRun) {
  const BatchSchedule batches = BatchPhases{34'816, {30}, {69'632}};
  EXPECT_EQ(steps_in(batches, 1'281'167, 90 * uint64_t{1'281'167}), 30u * 37 + 60 * 19);
  EXPECT_EQ(samples_in(batches, 1'281'167, 30 * 37), 30 * uint64_t{1'281'167});
}

TEST(StepsIn, TakesNoLongerForManyEpochs) {
  const uint64_t epochs = 1'000'000'000'000;
  EXPECT_EQ(steps_in(BatchPhases{2, {5}, {4}}, 3, 3 * epochs), 10 + epochs - 5);
  EXPECT_EQ(samples_in(2, 3, 2 * epochs), 3 * epochs);
  EXPECT_EQ(samples_in(1, 3, std::numeric_limits<uint64_t>::max()), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(steps_in(std::numeric_limits<uint64_t>::max(), 3, 7), 3u);
}

TEST(StepsIn, NothingInNothing) {
  EXPECT_EQ(steps_in(4, 10, 0), 0u);
  EXPECT_EQ(samples_in(4, 10, 0), 0u);
  EXPECT_THROW(steps_in(4, 0, 10), InternalError);
  EXPECT_THROW(samples_in(4, 0, 10), InternalError);
}

// 1.1 · 50,000 is a little more than 55,000 in floating point; the batch that begins there belongs to epoch 1.1 all the
// same.
TEST(FirstCursor, IsWhereABatchBeginsAtThatEpoch) {
  EXPECT_EQ(first_cursor(1.1, 50'000, 1'000'000), 55'000u);
  EXPECT_EQ(first_cursor(0, 7, 100), 0u);
  EXPECT_EQ(first_cursor(0.5, 7, 100), 4u);
  EXPECT_EQ(first_cursor(20, 7, 100), 100u);
  EXPECT_EQ(epoch_of({.epoch = 1, .begin = 5'000, .end = 5'128}, 50'000), 1.1);
  EXPECT_THROW(first_cursor(1, 0, 100), InternalError);
}

}  // namespace
}  // namespace paceline
