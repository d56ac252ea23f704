#include "paceline/rendezvous/watchdog.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <optional>

#include "paceline/core/clock.h"
#include "paceline/rendezvous/test_store.h"

namespace paceline {
namespace {

using testing::MatchesRegex;

const Operation kLarge{Verb::all_reduce, DType::f32, ReduceOp::sum, -1, 1000, 12};
const Operation kSmall{Verb::all_reduce, DType::f32, ReduceOp::sum, -1, 999, 12};
constexpr int64_t kSoonMs = 20;
constexpr int64_t kNeverMs = 3'600'000;

// A process with one group, and its watchdog.
class Process {
 public:
  Process(const StoreServer& server, int rank, Watchdog::Options options, int64_t timeout_ms = kNeverMs,
          std::vector<int> members = {0, 1})
      : monitor_(std::make_shared<Monitor>(timeout_ms)), listener_(monitor_->alarm(), [this] { raised_.set_value(); }) {
    const auto place = std::ranges::find(members, rank) - members.begin();
    monitor_->add({"world", members, static_cast<int>(place), &cell_});
    watchdog_ = std::make_unique<Watchdog>(join(server, rank, true), monitor_, std::move(options));
  }

  void begin(const Operation& operation) { cell_.begin(operation, SteadyClock().now_ns()); }
  void end() { cell_.end(SteadyClock().now_ns()); }
  void leave() { watchdog_.reset(); }
  Alarm& alarm() { return monitor_->alarm(); }

  std::string wait_for_alarm() {
    const auto waited = raised_.get_future().wait_for(std::chrono::milliseconds(kPatienceMs));
    return waited == std::future_status::ready ? monitor_->alarm().text() : "no alarm";
  }

 private:
  StatusCell cell_;
  std::shared_ptr<Monitor> monitor_;
  std::promise<void> raised_;
  Alarm::Listener listener_;
  std::unique_ptr<Watchdog> watchdog_;
};

StoreServer serve(int ranks) { return StoreServer({.ranks = ranks}, Secret("of this test")); }

TEST(Watchdog, FindsThatTheOtherRankIsInAnotherOperation) {
  const StoreServer server = serve(2);
  Process first(server, 0, {.ask_after_ms = kSoonMs});
  Process second(server, 1, {.ask_after_ms = kNeverMs});
  second.begin(kSmall);
  first.begin(kLarge);
  const int64_t begin_ns = SteadyClock().now_ns();
  const std::string text = first.wait_for_alarm();
  EXPECT_LT(seconds_between(begin_ns, SteadyClock().now_ns()), 5.0);  // 0.03 on a quiet machine
  EXPECT_EQ(text,
            "rank 0: all_reduce #12 (sum of 1000 f32, 4000 bytes) in group 'world' cannot finish: rank 1 called "
            "all_reduce #12 (sum of 999 f32, 3996 bytes); every rank must call the same operations in the same order "
            "with the same counts and types");
  EXPECT_EQ(second.wait_for_alarm(), text);
}

TEST(Watchdog, TellsAfterTheTimeOutWhoHasNotArrived) {
  const StoreServer server = serve(2);
  Process first(server, 0, {.ask_after_ms = kSoonMs}, 10 * kSoonMs);
  Process second(server, 1, {.ask_after_ms = kNeverMs});
  first.begin(kLarge);
  EXPECT_THAT(
      first.wait_for_alarm(),
      MatchesRegex("rank 0: all_reduce #12 \\(sum of 1000 f32, 4000 bytes\\) in group 'world' did not finish in "
                   "[0-9.]+ s: rank 1 has not arrived \\(nor begun any operation\\); a rank that is only slow "
                   "needs a longer time-out \\(PACELINE_TIMEOUT, in seconds\\)"));
}

TEST(Watchdog, HasHopeWhileTheOthersAreInTheSameOperation) {
  StoreServer server = serve(3);
  Process first(server, 0, {.ask_after_ms = 1});
  Process second(server, 1, {.ask_after_ms = 1});
  const auto witness = join(server, 2, true);
  first.begin(kLarge);
  second.begin(kLarge);
  StoreNews statuses;
  do {  // until both have answered: their own reports were answered before that
    witness->report("world", {0, 1}, {.rank = 0, .state = RankStatus::State::busy, .operation = kLarge});
    statuses = NewsListener(*witness).next();
  } while (statuses.statuses.at(0).operation != kLarge || statuses.statuses.at(1).operation != kLarge);
  EXPECT_FALSE(first.alarm().raised());
  EXPECT_FALSE(second.alarm().raised());
}

TEST(Watchdog, TellsADeathInTheWordsOfTheOperationThatItEnds) {
  StoreServer server = serve(4);
  Process busy(server, 3, {.ask_after_ms = kNeverMs}, kNeverMs, {1, 3});
  Process idle(server, 0, {.ask_after_ms = kNeverMs}, kNeverMs, {0, 1});
  Process elsewhere(server, 2, {.ask_after_ms = kNeverMs}, kNeverMs, {0, 2});
  busy.begin(kLarge);
  elsewhere.begin(kLarge);
  server.declare_dead(1, "killed by signal 9");
  EXPECT_EQ(
      busy.wait_for_alarm(),
      "rank 1: all_reduce #12 (sum of 1000 f32, 4000 bytes) in group 'world' cannot finish: rank 0 died (killed by "
      "signal 9)");
  EXPECT_EQ(idle.wait_for_alarm(), "rank 1 died: killed by signal 9");
  EXPECT_EQ(elsewhere.wait_for_alarm(), "rank 1 died: killed by signal 9");
}

TEST(Watchdog, HearsOfADeathBeforeItsTime) {
  StoreServer server = serve(3);
  const auto witness = join(server, 2, true);
  server.declare_dead(0, "killed by signal 9");
  NewsListener(*witness).next();
  Process late(server, 1, {.ask_after_ms = kNeverMs});
  EXPECT_EQ(late.wait_for_alarm(), "rank 0 died: killed by signal 9");
}

TEST(Watchdog, ARankThatLeftInOrderIsMissedOnlyWhereItIsNeeded) {
  const StoreServer server = serve(2);
  Process first(server, 0, {.ask_after_ms = kSoonMs});
  Process second(server, 1, {.ask_after_ms = kNeverMs});
  second.begin(kLarge);
  second.end();
  second.leave();
  Operation next = kLarge;
  next.sequence = 13;
  first.begin(next);
  EXPECT_EQ(
      first.wait_for_alarm(),
      "rank 0: all_reduce #13 (sum of 1000 f32, 4000 bytes) in group 'world' cannot finish: rank 1 left the group "
      "after all_reduce #12 (sum of 1000 f32, 4000 bytes)");
}

TEST(Watchdog, PassesAnAlarmOfThisProcessOn) {
  const StoreServer server = serve(2);
  Process first(server, 0, {.ask_after_ms = kNeverMs});
  Process second(server, 1, {.ask_after_ms = kNeverMs});
  first.alarm().raise("the engine found something");
  EXPECT_EQ(second.wait_for_alarm(), "rank 0 reported: the engine found something");
}

TEST(Watchdog, PassesAnAlarmOnEvenWhenTheProcessLeavesAtOnce) {
  const StoreServer server = serve(2);
  Process second(server, 1, {.ask_after_ms = kNeverMs});
  {
    Process first(server, 0, {.ask_after_ms = kNeverMs});
    first.alarm().raise("the engine found something");
  }
  EXPECT_EQ(second.wait_for_alarm(), "rank 0 reported: the engine found something");
}

TEST(Watchdog, RaisesTheAlarmWhenTheStoreIsGone) {
  std::optional<StoreServer> server;
  server.emplace(StoreServer::Options{.ranks = 2}, Secret("of this test"));
  Process process(*server, 0, {.ask_after_ms = kNeverMs});
  const uint16_t port = server->port();
  server.reset();
  EXPECT_EQ(process.wait_for_alarm(),
            fmt::format("the rendezvous store is gone (its process died); it was at 127.0.0.1:{}", port));
}

TEST(Watchdog, GivesUpWhenAnOperationDoesNotHearTheAlarm) {
  const StoreServer server = serve(2);
  std::promise<std::string> gave_up;  // a second call would throw
  Process process(server, 0,
                  {.ask_after_ms = kSoonMs,
                   .give_up = [&](const std::string& text) { gave_up.set_value(text); },
                   .grace_ms = 2 * kSoonMs});
  process.begin(kLarge);
  process.alarm().raise("no way out");
  EXPECT_EQ(gave_up.get_future().get(), "no way out");
}

TEST(Watchdog, DoesNotGiveUpAProcessWhoseOperationsHaveEnded) {
  std::optional<StoreServer> server;
  server.emplace(StoreServer::Options{.ranks = 2}, Secret("of this test"));
  Process process(*server, 0, {.ask_after_ms = 1, .give_up = [](const std::string&) { ADD_FAILURE(); }, .grace_ms = 0});
  process.begin(kLarge);
  process.end();
  server.reset();
  process.wait_for_alarm();
}

}  // namespace
}  // namespace paceline
