#include "paceline/rendezvous/store_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "paceline/rendezvous/store_protocol.h"
#include "paceline/rendezvous/test_store.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using Kind = StoreNews::Kind;

const Secret kSecret("of this test");

// What the server said of those it turned away.
class Refusals {
 public:
  void add(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      all_.push_back(why);
    }
    changed_.notify_all();
  }
  std::string next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] { return taken_ < all_.size(); }))
      return "nobody was turned away";
    return all_[taken_++];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
  size_t taken_ = 0;
};

class StoreServerTest : public testing::Test {
 protected:
  StoreServer serve(StoreServer::Options options) {
    options.refused = [this](const std::string& why) { refusals_.add(why); };
    return StoreServer(options, kSecret);
  }
  Refusals refusals_;
};

// Somebody who connects and does not know the secret.
class Stranger {
 public:
  explicit Stranger(const StoreServer& server) {
    std::string why_not;
    socket_ = std::move(*try_to_connect("127.0.0.1", server.port(), Deadline(kPatienceMs), why_not));
  }
  std::string address() const { return local_address_of(socket_).text(); }
  void send(const std::string& bytes) { EXPECT_TRUE(write_all(socket_, bytes, Deadline(kPatienceMs))); }
  // Waits until the server closes; returns what it said until then.
  std::string hear_all() {
    std::string heard;
    while (wait_to_read(socket_, Deadline(kPatienceMs))) {
      if (read_some(socket_, heard) == Transfer::closed) return heard;
    }
    return "the server does not close";
  }

 private:
  Descriptor socket_;
};

TEST_F(StoreServerTest, GivesWhatWasSet) {
  const StoreServer server = serve({.ranks = 2});
  const auto first = join(server, 0, false);
  const auto second = join(server, 1, false);
  first->set("a", "1");
  first->set("empty", "");
  EXPECT_EQ(second->get("a", kPatienceMs), "1");
  EXPECT_EQ(second->get("empty", kPatienceMs), "");
  second->set("a", "2");
  EXPECT_EQ(first->get("a", kPatienceMs), "2");
}

TEST_F(StoreServerTest, LoopbackIsNoAddressForOtherHosts) {
  const StoreServer server = serve({.address = "", .ranks = 2});
  for (const char* const name : {"127.0.0.1", "127.0.1.1"}) {  // the second is what Debian calls a machine's own name
    const StoreClient client({.host = name, .port = server.port(), .rank = 0, .timeout_ms = kPatienceMs}, kSecret);
    EXPECT_EQ(client.local_address(), "127.0.0.1");
  }
  EXPECT_EQ(server.network_address(), "");
}

TEST_F(StoreServerTest, AGetWaitsForTheSet) {
  const StoreServer server = serve({.ranks = 2});
  const auto setter = join(server, 0, false);
  std::thread getter([&] {
    const auto client = join(server, 1, false);
    client->set("i wait", "");
    EXPECT_EQ(client->get("late", kPatienceMs), "here");
  });
  setter->get("i wait", kPatienceMs);
  setter->set("late", "here");
  getter.join();
}

TEST_F(StoreServerTest, CarriesTheLongestValue) {
  const StoreServer server = serve({.ranks = 1});
  const auto client = join(server, 0, false);
#ifdef PACELINE_SANITIZED
  const std::string value(1 << 20, 'x');  // quick there, too
#else
  const std::string value(kMostValueBytes, 'x');
#endif
  const std::string key(kMostKeyBytes, 'k');
  client->set(key, value);
  EXPECT_TRUE(client->get(key, kPatienceMs) == value);
}

TEST_F(StoreServerTest, LongerKeysAndValuesAreTheCallersMistake) {
  const StoreServer server = serve({.ranks = 1});
  const auto client = join(server, 0, false);
  EXPECT_THROW(client->set("k", std::string(kMostValueBytes + 1, 'x')), InternalError);
  EXPECT_THROW(client->set(std::string(kMostKeyBytes + 1, 'k'), ""), InternalError);
  EXPECT_THROW(client->get(std::string(kMostKeyBytes + 1, 'k'), 0), InternalError);
}

TEST_F(StoreServerTest, SixtyFourRanksMeetAtOnce) {
  constexpr int kRanks = 64;
  const StoreServer server = serve({.ranks = kRanks});
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto client = join(server, rank, rank % 2 == 0);
      client->set(fmt::format("rank {}", rank), fmt::format("{}", rank * rank));
      for (int other = 0; other < kRanks; ++other)
        EXPECT_EQ(client->get(fmt::format("rank {}", other), kPatienceMs), fmt::format("{}", other * other));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(StoreServerTest, AThousandRanksHearOfAFailure) {
  constexpr int kRanks = 1000;
  const StoreServer server = serve({.ranks = kRanks});
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int rank = 0; rank < kRanks; ++rank) clients.push_back(join(server, rank, true));
  clients[500]->fail("the loss is not finite");
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == 500) continue;
    const StoreNews news = NewsListener(*clients[rank]).next();
    EXPECT_EQ(news.kind, Kind::failed);
    EXPECT_EQ(failure_text(news), "rank 500 reported: the loss is not finite");
  }
  std::vector<std::thread> leaving;  // at the same time, as at the end of a run
  for (int first = 0; first < 50; ++first) {
    leaving.emplace_back([&, first] {
      for (int rank = first; rank < kRanks; rank += 50) clients[rank].reset();
    });
  }
  for (std::thread& thread : leaving) thread.join();
}

TEST_F(StoreServerTest, TurnsAStrangerWithAnotherSecretAway) {
  const StoreServer server = serve({.ranks = 2});
  EXPECT_EQ(peer_error_of([&] { join(server, 1, false, Secret("another")); }),
            fmt::format("the store at 127.0.0.1:{} turned rank 1 away: its secret is not that of this run; "
                        "PACELINE_SECRET must be the same on all ranks",
                        server.port()));
  EXPECT_THAT(refusals_.next(),
              testing::MatchesRegex("127\\.0\\.0\\.1:[0-9]+ was turned away: its secret is not that of this run; "
                                    "PACELINE_SECRET must be the same on all ranks"));
}

TEST_F(StoreServerTest, TurnsStrangersWhoDoNotSpeakAsRanksDoAway) {
  const StoreServer server = serve({.ranks = 1});
  const std::pair<std::string, std::string> strangers[] = {
      {"GET / HTTP/1.1\r\n\r\n", "a frame of 542393671 bytes"},
      {"\xff\xff\xff\xff\x01 and so on", "a frame of 4294967295 bytes"},
      {std::string("\x01\x10\x00\x00\x01", 5), "a frame of 4097 bytes"},
      {std::string("\x02\x00\x00\x00\x01\x00", 6), "a message that ends in the middle"},
      {encode(Set{1, "key", "value"}), "a message that makes no sense here"},
      {encode(Farewell{}), "a message that makes no sense here"},
  };
  for (const auto& [bytes, what] : strangers) {
    Stranger stranger(server);
    stranger.send(bytes);
    stranger.hear_all();
    EXPECT_EQ(refusals_.next(),
              fmt::format("{} was turned away: it does not speak as a rank does ({})", stranger.address(), what));
  }
  const auto client = join(server, 0, false);
  client->set("still", "here");
  EXPECT_EQ(client->get("still", kPatienceMs), "here");
}

TEST_F(StoreServerTest, ASilentStrangerIsTurnedAwayAndDisturbsNobody) {
  const StoreServer server = serve({.ranks = 1, .silence_ms = 20});
  const auto client = join(server, 0, false);
  Stranger silent(server);
  const std::string heard = silent.hear_all();
  EXPECT_EQ(refusals_.next(),
            fmt::format("{} was turned away: it did not say who it is within 0.0 s", silent.address()));
  client->set("a rank may be silent", "for as long as it likes");
  FrameReader reader(kStrangerFrameBytes);
  reader.input() = heard;
  EXPECT_EQ(decode<Challenge>(*reader.next()).magic, "paceline store");
}

TEST_F(StoreServerTest, AnswersThatWereOverheardProveNothing) {
  const StoreServer server = serve({.ranks = 2});
  Hello hello{"nonce", 1, 0, false, {}};
  hello.proof = client_proof(kSecret, random_nonce(), hello);  // right for another challenge
  Stranger stranger(server);
  stranger.send(encode(hello));
  stranger.hear_all();
  EXPECT_THAT(refusals_.next(), testing::HasSubstr("its secret is not that of this run"));
}

TEST_F(StoreServerTest, ManyStrangersLeaveRoomForTheRanks) {
  const StoreServer server = serve({.ranks = 1});
  std::vector<Stranger> strangers;
  for (int i = 0; i < 100; ++i) strangers.emplace_back(server);
  EXPECT_EQ(refusals_.next(), fmt::format("{} was turned away: too many at once who have not proved to know the secret",
                                          strangers[0].address()));
  join(server, 0, true);
}

TEST_F(StoreServerTest, TurnsRanksOfOtherRunsAwayByName) {
  const StoreServer server = serve({.ranks = 2, .generation = 4});
  const auto refused = [&](int rank, uint64_t generation) {
    const std::string error = peer_error_of([&] { join(server, rank, false, kSecret, generation); });
    const std::string log = refusals_.next();
    const std::string why = error.substr(error.find("away: "));
    EXPECT_EQ(log.substr(log.find("away: ")), why);
    return why;
  };
  EXPECT_EQ(refused(2, 4), "away: there is no rank 2 in this run of 2 ranks");
  EXPECT_EQ(refused(-1, 4), "away: there is no rank -1 in this run of 2 ranks");
  EXPECT_EQ(refused(1, 3),
            "away: rank 1 is of generation 3, this run of generation 4; it belongs to a run before or after");
}

TEST_F(StoreServerTest, TurnsASecondProcessOfTheSameRankAway) {
  const StoreServer server = serve({.ranks = 2});
  const auto first = join(server, 1, true);
  join(server, 1, false);  // one that is not watched stands for nothing
  EXPECT_THAT(peer_error_of([&] { join(server, 1, true); }),
              testing::MatchesRegex("the store at 127\\.0\\.0\\.1:[0-9]+ turned rank 1 away: rank 1 is here already "
                                    "\\(from 127\\.0\\.0\\.1:[0-9]+\\); no two processes may have the same rank"));
}

TEST_F(StoreServerTest, AFarewellIsNoDeath) {
  const StoreServer server = serve({.ranks = 2});
  const auto watcher = join(server, 0, true);
  join(server, 1, true);  // and goes
  const StoreNews news = NewsListener(*watcher).next();
  EXPECT_EQ(news.kind, Kind::ended);
  EXPECT_EQ(news.rank, 1);
}

TEST_F(StoreServerTest, ABrokenConnectionIsADeath) {
  const StoreServer server = serve({.ranks = 3});
  const auto watcher = join(server, 0, true);
  break_off(join(server, 1, false));  // stands for nothing
  break_off(join(server, 2, true));
  const StoreNews news = NewsListener(*watcher).next();
  EXPECT_EQ(news.kind, Kind::died);
  EXPECT_EQ(failure_text(news), "rank 2 died: its process is gone (connection closed)");
}

TEST_F(StoreServerTest, TheLauncherKnowsBetterWhyARankDied) {
  StoreServer server = serve({.ranks = 3});
  const auto watcher = join(server, 0, true);
  break_off(join(server, 1, true));
  server.declare_dead(1, "killed by signal 9");
  server.declare_dead(2, "exited with code 3");
  NewsListener listener(*watcher);
  EXPECT_EQ(failure_text(listener.next()), "rank 1 died: killed by signal 9");
  EXPECT_EQ(failure_text(listener.next()), "rank 2 died: exited with code 3");
}

TEST_F(StoreServerTest, ALatecomerHearsWhatHappened) {
  StoreServer server = serve({.ranks = 4});
  const auto witness = join(server, 0, true);
  join(server, 1, true)->fail("out of memory");
  server.declare_dead(2, "killed by signal 9");
  NewsListener saw(*witness);
  std::vector<Kind> kinds = {saw.next().kind, saw.next().kind, saw.next().kind};
  EXPECT_THAT(kinds, testing::UnorderedElementsAre(Kind::failed, Kind::ended, Kind::died));

  const auto late = join(server, 3, true);
  NewsListener heard(*late);
  EXPECT_EQ(failure_text(heard.next()), "rank 1 reported: out of memory");
  EXPECT_EQ(heard.next().kind, Kind::ended);
  EXPECT_EQ(failure_text(heard.next()), "rank 2 died: killed by signal 9");
}

TEST_F(StoreServerTest, AReportBringsTheStatusesOfTheGroup) {
  StoreServer server = serve({.ranks = 4});
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int rank = 0; rank < 4; ++rank) clients.push_back(join(server, rank, true));
  server.declare_dead(3, "killed by signal 9");
  NewsListener reporter(*clients[2]);
  NewsListener asked(*clients[0]);
  EXPECT_EQ(reporter.next().kind, Kind::died);
  EXPECT_EQ(asked.next().kind, Kind::died);

  const RankStatus mine{
      .rank = 0, .state = RankStatus::State::busy, .operation = {.verb = Verb::barrier, .sequence = 7}};
  clients[2]->report("world/1:0", {2, 0, 3}, mine);
  const StoreNews ask = asked.next();
  EXPECT_EQ(ask.kind, Kind::ask);
  EXPECT_EQ(ask.group, "world/1:0");
  clients[0]->answer("world/1:0", {.rank = 1, .state = RankStatus::State::idle});
  StoreNews statuses = reporter.next();
  while (statuses.statuses.at(1).state == RankStatus::State::unknown) {  // this thread was too slow to answer
    clients[2]->report("world/1:0", {2, 0, 3}, mine);
    statuses = reporter.next();
  }
  EXPECT_EQ(statuses.kind, Kind::statuses);
  ASSERT_EQ(statuses.statuses.size(), 3U);
  EXPECT_EQ(statuses.statuses[0].operation, mine.operation);
  EXPECT_EQ(statuses.statuses[1].state, RankStatus::State::idle);
  EXPECT_EQ(statuses.statuses[2].state, RankStatus::State::dead);
  EXPECT_EQ(statuses.statuses[2].rank, 2);
  EXPECT_EQ(statuses.statuses[2].detail, "killed by signal 9");
}

TEST_F(StoreServerTest, APortInUseIsNamed) {
  const StoreServer server = serve({.ranks = 1});
  EXPECT_EQ(peer_error_of([&] { serve({.port = server.port()}); }),
            fmt::format("port {} at 127.0.0.1 is in use by another program; choose another with PACELINE_PORT",
                        server.port()));
}

TEST_F(StoreServerTest, ANameThatDoesNotResolveIsNamed) {
  EXPECT_THAT(peer_error_of([&] { serve({.address = "nowhere.invalid"}); }),
              testing::MatchesRegex("host \"nowhere.invalid\" does not resolve \\(.+\\); check its spelling, or give "
                                    "its address instead"));
}

}  // namespace
}  // namespace paceline
