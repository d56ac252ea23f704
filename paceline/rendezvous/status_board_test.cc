#include "paceline/rendezvous/status_board.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

using testing::ElementsAre;
using State = RankStatus::State;

RankStatus busy(uint64_t sequence, int64_t for_ms) {
  return {.state = State::busy, .operation = {.verb = Verb::barrier, .sequence = sequence}, .for_ms = for_ms};
}
RankStatus idle(uint64_t sequence) {
  return {.state = State::idle, .operation = {.verb = Verb::barrier, .sequence = sequence}};
}

std::vector<State> states(const StatusBoard::Statement& statement) {
  std::vector<State> all;
  for (const RankStatus& status : statement.news.statuses) all.push_back(status.state);
  return all;
}

class StatusBoardTest : public testing::Test {
 protected:
  StatusBoardTest() : roster_(10), board_(roster_) {
    for (int rank = 0; rank < 10; ++rank) roster_.watch(rank, "");
  }
  Roster roster_;
  StatusBoard board_;
};

TEST_F(StatusBoardTest, AsksTheOthersAndTellsTheReporterWhenAllHaveAnswered) {
  EXPECT_THAT(board_.report(7, "g", {5, 7, 9}, busy(4, 500), 1000), ElementsAre(5, 9));
  board_.answer(5, "g", busy(4, 400), 1002);
  EXPECT_TRUE(board_.due(1003).empty());
  board_.answer(9, "g", idle(3), 1005);
  const auto statements = board_.due(1010);
  ASSERT_EQ(statements.size(), 1U);
  EXPECT_THAT(statements[0].to, ElementsAre(7));
  EXPECT_EQ(statements[0].news.kind, StoreNews::Kind::statuses);
  EXPECT_EQ(statements[0].news.group, "g");
  EXPECT_THAT(states(statements[0]), ElementsAre(State::busy, State::busy, State::idle));
  const auto& told = statements[0].news.statuses;
  EXPECT_EQ(told[1].rank, 1);  // within the group
  EXPECT_EQ(told[2].operation.sequence, 3U);
  EXPECT_EQ(told[0].for_ms, 408);  // time goes on while a status waits here
  EXPECT_TRUE(board_.due(1010).empty());
  EXPECT_EQ(board_.next_due_ms(), std::nullopt);
}

TEST_F(StatusBoardTest, DoesNotWaitLongForOneThatSaysNothing) {
  board_.report(0, "g", {0, 1}, busy(1, 0), 1000);
  EXPECT_EQ(board_.next_due_ms(), 1050);
  EXPECT_TRUE(board_.due(1049).empty());
  EXPECT_THAT(states(board_.due(1050).at(0)), ElementsAre(State::busy, State::unknown));
  EXPECT_THAT(board_.report(0, "g", {0, 1}, busy(1, 0), 1060), ElementsAre(1));  // asked again
}

TEST_F(StatusBoardTest, AsksNobodyTwiceHoweverManyReport) {
  EXPECT_THAT(board_.report(0, "g", {0, 1, 2}, busy(1, 0), 1000), ElementsAre(1, 2));
  EXPECT_TRUE(board_.report(1, "g", {0, 1, 2}, busy(1, 0), 1001).empty());
  board_.answer(2, "g", idle(0), 1002);
  EXPECT_THAT(board_.due(1002).at(0).to, ElementsAre(0, 1));
  EXPECT_TRUE(board_.report(0, "g", {0, 1, 2}, busy(1, 0), 1003).empty());
  EXPECT_THAT(board_.due(1003).at(0).to, ElementsAre(0));  // at once: everything is known
}

TEST_F(StatusBoardTest, TheDeadAndTheGoneAreNotAskedButTold) {
  board_.answer(1, "g", idle(8), 900);  // it said how far it came
  roster_.farewell(1);
  roster_.declare_dead(2, "killed by signal 9");
  EXPECT_TRUE(board_.report(0, "g", {0, 1, 2}, busy(9, 0), 1000).empty());
  const auto statement = board_.due(1000).at(0);
  EXPECT_THAT(states(statement), ElementsAre(State::busy, State::ended, State::dead));
  EXPECT_EQ(statement.news.statuses[1].operation.sequence, 8U);
  EXPECT_EQ(statement.news.statuses[2].detail, "killed by signal 9");
}

TEST_F(StatusBoardTest, ADeathEndsTheWait) {
  board_.report(0, "g", {0, 1}, busy(1, 0), 1000);
  roster_.declare_dead(1, "gone");
  EXPECT_THAT(states(board_.due(1001).at(0)), ElementsAre(State::busy, State::dead));
}

TEST_F(StatusBoardTest, GroupsAreApart) {
  EXPECT_THAT(board_.report(0, "a", {0, 1}, busy(1, 0), 1000), ElementsAre(1));
  EXPECT_THAT(board_.report(0, "b", {1, 0}, busy(2, 0), 1000), ElementsAre(1));
  board_.answer(1, "b", idle(1), 1001);
  const auto statements = board_.due(1001);
  ASSERT_EQ(statements.size(), 1U);
  EXPECT_EQ(statements[0].news.group, "b");
  EXPECT_THAT(states(statements[0]), ElementsAre(State::idle, State::busy));
}

TEST_F(StatusBoardTest, TellsForHowLongARankHasNotAnswered) {
  board_.report(0, "g", {0, 1}, busy(4, 500), 1000);
  board_.answer(1, "g", busy(4, 400), 1001);
  EXPECT_EQ(board_.due(1002).at(0).news.statuses[1].silent_ms, 0);
  board_.report(0, "g", {0, 1}, busy(4, 1500), 2000);
  board_.due(2050);
  board_.report(0, "g", {0, 1}, busy(4, 2500), 3000);  // rank 1 is asked again
  const auto statuses = board_.due(3050).at(0).news.statuses;
  EXPECT_EQ(statuses[1].silent_ms, 1050);
  EXPECT_EQ(statuses[1].operation.sequence, 4U);  // what it did last
  EXPECT_EQ(statuses[0].silent_ms, 0);
  board_.answer(1, "g", busy(4, 9), 3060);
  board_.report(0, "g", {0, 1}, busy(4, 2600), 3100);
  EXPECT_EQ(board_.due(3150).at(0).news.statuses[1].silent_ms, 0);
}

TEST_F(StatusBoardTest, TimeGoesOnForARankAtWorkWhileItsStatusWaits) {
  RankStatus works = idle(3);
  works.chore = Chore::checkpoint;
  works.chore_ms = 100;
  works.since_work_ms = 0;
  RankStatus worked = idle(3);
  worked.since_work_ms = 100;
  board_.report(0, "g", {0, 1, 2}, busy(4, 500), 1000);
  board_.answer(1, "g", works, 1000);
  board_.answer(2, "g", worked, 1000);
  const auto statuses = board_.due(1010).at(0).news.statuses;
  EXPECT_EQ(statuses[1].chore_ms, 110);
  EXPECT_EQ(statuses[1].since_work_ms, 0);
  EXPECT_EQ(statuses[2].since_work_ms, 110);
}

}  // namespace
}  // namespace paceline
