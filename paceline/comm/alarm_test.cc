#include "paceline/comm/alarm.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {
namespace {

TEST(Alarm, KeepsTheFirstText) {
  Alarm alarm;
  EXPECT_FALSE(alarm.raised());
  alarm.raise("rank 2 died");
  alarm.raise("rank 3 died");
  EXPECT_TRUE(alarm.raised());
  EXPECT_EQ(alarm.text(), "rank 2 died");
}

TEST(Alarm, FailsAsAPeersFault) {
  Alarm alarm;
  alarm.raise("rank 2 died");
  try {
    alarm.fail();
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_STREQ(error.what(), "rank 2 died");
  }
}

TEST(Alarm, HasNoTextBeforeItIsRaised) {
  const Alarm alarm;
  EXPECT_THROW(alarm.text(), InternalError);
  EXPECT_THROW(alarm.fail(), InternalError);
}

TEST(Alarm, WakesEveryListenerOnce) {
  Alarm alarm;
  int first = 0;
  int second = 0;
  const Alarm::Listener one(alarm, [&] { ++first; });
  const Alarm::Listener two(alarm, [&] { ++second; });
  EXPECT_EQ(first + second, 0);
  alarm.raise("rank 2 died");
  alarm.raise("rank 3 died");
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(Alarm, WakesAListenerThatComesLateAtOnce) {
  Alarm alarm;
  alarm.raise("rank 2 died");
  bool awake = false;
  const Alarm::Listener listener(alarm, [&] { awake = true; });
  EXPECT_TRUE(awake);
}

TEST(Alarm, LeavesAListenerAloneThatIsGone) {
  Alarm alarm;
  int calls = 0;
  std::optional<Alarm::Listener> gone(std::in_place, alarm, [&] { ++calls; });
  const Alarm::Listener stays(alarm, [&] { calls += 10; });
  gone.reset();
  alarm.raise("rank 2 died");
  EXPECT_EQ(calls, 10);
}

TEST(Alarm, TellsItsListenersTheTextAndLetsThemRaiseIt) {
  Alarm alarm;
  std::string heard;
  const Alarm::Listener listener(alarm, [&] {
    heard = alarm.text();
    alarm.raise("again");
  });
  alarm.raise("rank 2 died");
  EXPECT_EQ(heard, "rank 2 died");
}

TEST(Alarm, WaitsForACallUnderWayBeforeAListenerGoes) {
  Alarm alarm;
  std::atomic<bool> entered{false};
  std::atomic<bool> leave{false};
  std::atomic<bool> left{false};
  std::optional<Alarm::Listener> listener(std::in_place, alarm, [&] {
    entered.store(true);
    while (!leave.load()) std::this_thread::yield();
    left.store(true);
  });
  std::thread raiser([&] { alarm.raise("rank 2 died"); });
  while (!entered.load()) std::this_thread::yield();
  std::thread releaser([&] { leave.store(true); });
  listener.reset();
  EXPECT_TRUE(left.load());
  raiser.join();
  releaser.join();
}

TEST(Alarm, IsRaisedByOneOfManyThreads) {
  Alarm alarm;
  std::atomic<int> calls{0};
  const Alarm::Listener listener(alarm, [&] { ++calls; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      alarm.raise(std::to_string(i));
      EXPECT_EQ(alarm.text().size(), 1u);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls.load(), 1);
}

}  // namespace
}  // namespace paceline
