#include "paceline/rendezvous/roster.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr const char* kClosed = "its process is gone (connection closed)";

TEST(Roster, KnowsItsRanks) {
  const Roster roster(3);
  EXPECT_TRUE(roster.has(0));
  EXPECT_TRUE(roster.has(2));
  EXPECT_FALSE(roster.has(3));
  EXPECT_FALSE(roster.has(-1));
}

TEST(Roster, TellsHowAConnectionBrokeWhereNobodyKnowsMore) {
  Roster roster(2);
  roster.watch(0, "");
  roster.watch(1, "");
  roster.lose(0, 1000, kClosed);
  roster.lose(1, 1000, "the network is cut");
  const auto news = roster.overdue(1000 + Roster::kWaitForCauseMs);
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(news[0].text, kClosed);
  EXPECT_EQ(news[1].text, "the network is cut");
}

TEST(Roster, ARankIsWatchedOnce) {
  Roster roster(2);
  EXPECT_EQ(roster.objection(1), std::nullopt);
  roster.watch(1, "10.0.0.1:7");
  EXPECT_EQ(roster.objection(1), "rank 1 is here already (from 10.0.0.1:7); no two processes may have the same rank");
  roster.farewell(1);
  EXPECT_EQ(roster.objection(1), "rank 1 has left this run already; it cannot come back");
  roster.declare_dead(1, "exited with code 3");
  EXPECT_EQ(roster.objection(1), "rank 1 of this run has died; it cannot come back");
  EXPECT_EQ(roster.objection(0), std::nullopt);
}

TEST(Roster, AnUnexplainedDeathIsToldWhenNobodyGaveItsCause) {
  Roster roster(2);
  roster.watch(1, "");
  EXPECT_EQ(roster.next_overdue_ms(), std::nullopt);
  roster.lose(1, 1000, kClosed);
  EXPECT_EQ(roster.next_overdue_ms(), 1300);
  EXPECT_TRUE(roster.overdue(1299).empty());
  const auto news = roster.overdue(1300);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].kind, StoreNews::Kind::died);
  EXPECT_EQ(news[0].rank, 1);
  EXPECT_EQ(news[0].text, kClosed);
  EXPECT_TRUE(roster.overdue(9999).empty());
  EXPECT_EQ(roster.next_overdue_ms(), std::nullopt);
  EXPECT_EQ(roster.declare_dead(1, "too late"), std::nullopt);
}

TEST(Roster, ADeathIsToldOnceWithItsCause) {
  Roster roster(3);
  roster.watch(1, "");
  roster.lose(1, 0, kClosed);
  EXPECT_EQ(roster.declare_dead(1, "killed by signal 9")->text, "killed by signal 9");
  EXPECT_TRUE(roster.overdue(9999).empty());
  roster.watch(2, "");
  EXPECT_EQ(roster.declare_dead(2, "exited with code 3")->text, "exited with code 3");
  roster.lose(2, 0, kClosed);  // its connection breaks after the launcher has told
  EXPECT_TRUE(roster.overdue(9999).empty());
  EXPECT_EQ(roster.declare_dead(0, "never came")->rank, 0);
}

TEST(Roster, ALatecomerHearsWhoDiedAndWhoLeft) {
  Roster roster(4);
  for (const int rank : {0, 1, 2}) roster.watch(rank, "");
  roster.farewell(2);
  roster.declare_dead(0, "killed by signal 9");
  const auto history = roster.history();
  ASSERT_EQ(history.size(), 2U);
  EXPECT_EQ(history[0].kind, StoreNews::Kind::died);
  EXPECT_EQ(history[0].text, "killed by signal 9");
  EXPECT_EQ(history[1].kind, StoreNews::Kind::ended);
  EXPECT_EQ(history[1].rank, 2);
  EXPECT_EQ(roster.fate(0)->state, RankStatus::State::dead);
  EXPECT_EQ(roster.fate(0)->detail, "killed by signal 9");
  EXPECT_EQ(roster.fate(2)->state, RankStatus::State::ended);
  EXPECT_FALSE(roster.fate(1));
  EXPECT_FALSE(roster.fate(3));
}

}  // namespace
}  // namespace paceline
