#include "paceline/ps/strand.h"

#include <gmock/gmock.h>

#include <future>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using testing::ElementsAre;

class StrandTest : public testing::TestWithParam<Strand::Runs> {};

TEST_P(StrandTest, DoesOneTaskAtATimeInTheirOrder) {
  Strand strand(GetParam(), [](std::exception_ptr) { ADD_FAILURE(); });
  constexpr int kThreads = 4, kTasks = 500;
  std::vector<std::vector<int>> seen(kThreads);
  int running = 0;  // not atomic: a second task at the same time is a race
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kTasks; ++i) {
        strand.post([&, thread, i] {
          EXPECT_EQ(++running, 1);
          seen[static_cast<size_t>(thread)].push_back(i);
          --running;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::promise<void> done;
  strand.post([&] { done.set_value(); });
  done.get_future().wait();
  for (const auto& mine : seen) {
    ASSERT_EQ(mine.size(), static_cast<size_t>(kTasks));
    EXPECT_TRUE(std::ranges::is_sorted(mine));
  }
}

TEST_P(StrandTest, WhatATaskPostsComesAfterIt) {
  Strand strand(GetParam(), [](std::exception_ptr) { ADD_FAILURE(); });
  std::vector<int> order;
  std::promise<void> done;
  strand.post([&] {
    strand.post([&] {
      order.push_back(2);
      done.set_value();
    });
    order.push_back(1);
  });
  done.get_future().wait();
  strand.stop();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST_P(StrandTest, EndsWithTheFirstFailureAndTellsIt) {
  std::promise<std::string> told;
  bool after = false;
  {
    Strand strand(GetParam(), [&](std::exception_ptr failure) {
      try {
        std::rethrow_exception(failure);
      } catch (const PeerError& error) {
        told.set_value(error.what());
      }
    });
    strand.post([&] {
      strand.post([&] { after = true; });
      throw PeerError("no");
    });
    EXPECT_EQ(told.get_future().get(), "no");
    strand.stop();
    strand.post([&] { after = true; });
  }
  EXPECT_FALSE(after);
}

INSTANTIATE_TEST_SUITE_P(Ways, StrandTest, testing::Values(Strand::Runs::own_thread, Strand::Runs::callers));

}  // namespace
}  // namespace paceline
