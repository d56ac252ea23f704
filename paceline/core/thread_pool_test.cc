#include "paceline/core/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <numeric>
#include <set>

namespace paceline {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceBeforeItEnds) {
  for (const int threads : {1, 2, 7}) {
    std::vector<int> runs(1000);
    {
      ThreadPool pool(threads, 10);  // submit() has to wait for room
      EXPECT_EQ(pool.size(), threads);
      for (int& run : runs) pool.submit([&run] { ++run; });
    }
    EXPECT_THAT(runs, testing::Each(1));
  }
}

TEST(ThreadPool, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) pool.submit([&order, i] { order.push_back(i); });
  }
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(ThreadPool, RunsAsManyTasksAtATimeAsItHasThreads) {
  std::barrier all_here(4);  // passes only when four tasks run together
  std::atomic<int> passed = 0;
  {
    ThreadPool pool(4);
    for (int i = 0; i < 4; ++i) {
      pool.submit([&] {
        all_here.arrive_and_wait();
        ++passed;
      });
    }
  }
  EXPECT_EQ(passed, 4);
}

TEST(ThreadPool, EndsWithoutAnyTask) {
  bool ended = false;
  {
    ThreadPool pool(3);
    ended = pool.size() == 3;
  }
  EXPECT_TRUE(ended);
}

TEST(ThreadPool, NeedsAThread) { EXPECT_THROW(ThreadPool(0), InternalError); }

}  // namespace
}  // namespace paceline
