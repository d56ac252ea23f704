#include "paceline/core/bounded_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace paceline {
namespace {

TEST(BoundedQueue, IsFirstInFirstOutAroundItsEnd) {
  BoundedQueue<int> queue(3);
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(queue.push(2 * round));
    EXPECT_TRUE(queue.push(2 * round + 1));
    EXPECT_EQ(queue.size(), 2u);
    EXPECT_EQ(queue.pop(), 2 * round);
    EXPECT_EQ(queue.pop(), 2 * round + 1);
  }
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BoundedQueue, NeedsRoomForOne) { EXPECT_THROW(BoundedQueue<int>(0), InternalError); }

TEST(BoundedQueue, CarriesValuesThatOnlyMove) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  queue.push(std::make_unique<int>(5));
  EXPECT_EQ(**queue.pop(), 5);
}

TEST(BoundedQueue, LetsGoOfWhatWasTaken) {
  BoundedQueue<std::shared_ptr<int>> queue(2);
  const auto value = std::make_shared<int>(1);
  queue.push(value);
  queue.pop();
  EXPECT_EQ(value.use_count(), 1);  // the slot holds nothing back
}

TEST(BoundedQueue, ClosedDrainsWhatIsLeftAndRefusesMore) {
  BoundedQueue<int> queue(4);
  queue.push(1);
  queue.push(2);
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
  queue.close();  // twice does no harm
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, CloseWakesEveryWaitingThread) {
  BoundedQueue<int> empty(1), full(1);
  full.push(0);
  int refused = 0, nothing = 0;
  {
    std::vector<std::jthread> threads;
    std::mutex mutex;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        const bool taken = full.push(1);
        const std::lock_guard lock(mutex);
        refused += !taken;
      });
      threads.emplace_back([&] {
        const auto value = empty.pop();
        const std::lock_guard lock(mutex);
        nothing += !value;
      });
    }
    full.close();
    empty.close();
    for (std::jthread& thread : threads) thread.join();
  }
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(nothing, 3);
}

TEST(BoundedQueue, ManyThreadsPassEveryValueOnceAndInEachOnesOrder) {
  constexpr int kProducers = 4, kConsumers = 3, kEach = 2000;
  BoundedQueue<std::pair<int, int>> queue(5);  // producer, number
  std::vector<std::vector<std::pair<int, int>>> taken(kConsumers);
  {
    std::vector<std::jthread> consumers;
    for (int c = 0; c < kConsumers; ++c) {
      consumers.emplace_back([&, c] {
        while (const auto value = queue.pop()) taken[c].push_back(*value);
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int p = 0; p < kProducers; ++p) {
        producers.emplace_back([&, p] {
          for (int i = 0; i < kEach; ++i) queue.push({p, i});
        });
      }
    }
    queue.close();
  }
  std::vector<std::vector<int>> seen(kProducers, std::vector<int>(kEach));
  for (const auto& values : taken) {
    std::vector<int> last(kProducers, -1);
    for (const auto& [producer, number] : values) {
      EXPECT_GT(number, last[producer]);
      last[producer] = number;
      ++seen[producer][number];
    }
  }
  for (const auto& counts : seen) EXPECT_THAT(counts, testing::Each(1));
}

}  // namespace
}  // namespace paceline
