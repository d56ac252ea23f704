#include "paceline/rendezvous/store_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <thread>

#include "paceline/rendezvous/store_protocol.h"
#include "paceline/rendezvous/test_store.h"

namespace paceline {
namespace {

const Secret kSecret("of this test");

StoreClient::Options options_for(uint16_t port, int64_t timeout_ms = kPatienceMs) {
  return {.host = "127.0.0.1", .port = port, .rank = 3, .timeout_ms = timeout_ms};
}

std::string error_at(uint16_t port, int64_t timeout_ms = kPatienceMs) {
  return peer_error_of([&] { StoreClient(options_for(port, timeout_ms), kSecret); });
}

// Another program where the store should be: talks to one visitor as `body` says, then closes.
class Impostor {
 public:
  explicit Impostor(std::function<void(const Descriptor& visitor)> body)
      : listener_(listen_at("127.0.0.1", 0)), thread_([this, body = std::move(body)] {
          if (!wait_to_read(listener_, Deadline(kPatienceMs))) return;
          const auto visitor = accept_from(listener_);
          body(*visitor);
        }) {}
  ~Impostor() { thread_.join(); }
  uint16_t port() const { return local_address_of(listener_).port; }

  static void send(const Descriptor& visitor, const std::string& bytes) {
    EXPECT_TRUE(write_all(visitor, bytes, Deadline(kPatienceMs)));
  }
  static Hello receive_hello(const Descriptor& visitor) {
    FrameReader reader(kStrangerFrameBytes);
    for (;;) {
      if (const auto frame = reader.next()) return decode<Hello>(*frame);
      EXPECT_TRUE(wait_to_read(visitor, Deadline(kPatienceMs)));
      EXPECT_EQ(read_some(visitor, reader.input()), Transfer::some);
    }
  }

 private:
  Descriptor listener_;
  std::thread thread_;
};

TEST(StoreClient, TellsWhereNobodyListensAndHowLongItTried) {
  const uint16_t port = free_port();
  EXPECT_EQ(error_at(port, 100),
            fmt::format("rank 3 cannot reach the store at 127.0.0.1:{} (tried for 0.1 s): Connection refused; is the "
                        "launcher (or rank 0) running, and does no firewall stand between?",
                        port));
}

TEST(StoreClient, WaitsForAServerThatStartsLater) {
  const uint16_t port = free_port();
  std::thread early([&] { EXPECT_EQ(StoreClient(options_for(port), kSecret).get("key", kPatienceMs), "value"); });
  const StoreServer server({.port = port, .ranks = 4}, kSecret);
  StoreClient(options_for(port), kSecret).set("key", "value");
  early.join();
}

TEST(StoreClient, NamesAHostThatDoesNotResolve) {
  StoreClient::Options options = options_for(1, 10);
  options.host = "nowhere.invalid";
  EXPECT_THAT(peer_error_of([&] { StoreClient(options, kSecret); }),
              testing::ContainsRegex("host \"nowhere.invalid\" does not resolve \\(.+\\); check its spelling, or give "
                                     "its address instead"));
}

TEST(StoreClient, DoesNotTrustAServerThatDoesNotKnowTheSecret) {
  const Impostor impostor([](const Descriptor& visitor) {
    Impostor::send(visitor, encode(Challenge{.nonce = "n"}));
    const Hello hello = Impostor::receive_hello(visitor);
    Impostor::send(visitor, encode(Welcome{hello.proof}));  // sent back to where it came from
  });
  EXPECT_EQ(error_at(impostor.port()),
            fmt::format("the store at 127.0.0.1:{} does not know the secret of this run and is not trusted; "
                        "PACELINE_SECRET must be the same on all ranks",
                        impostor.port()));
}

TEST(StoreClient, SaysSoWhenAnotherProgramListensThere) {
  const Impostor impostor([](const Descriptor& visitor) { Impostor::send(visitor, "SSH-2.0-OpenSSH_9.2\r\n"); });
  EXPECT_EQ(error_at(impostor.port()),
            fmt::format("127.0.0.1:{} is not the store of a Paceline run (it sent a frame of "
                        "759714643 bytes): another program listens there",
                        impostor.port()));
}

TEST(StoreClient, SaysSoWhenWhoeverListensSaysNothing) {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  EXPECT_THAT(error_at(local_address_of(listener).port, 20),
              testing::HasSubstr("(tried for 0.0 s): somebody listens there but says nothing; is"));
}

TEST(StoreClient, SaysSoWhenTheServerIsOfAnotherVersion) {
  const Impostor impostor(
      [](const Descriptor& visitor) { Impostor::send(visitor, encode(Challenge{.protocol = 99, .nonce = "n"})); });
  EXPECT_EQ(error_at(impostor.port()), fmt::format("the store at 127.0.0.1:{} is of another version of Paceline (its "
                                                   "protocol is 99, ours {}): all ranks must run the same",
                                                   impostor.port(), kStoreProtocol));
}

TEST(StoreClient, PassesNoControlCharactersOfAStrangerOn) {
  const Impostor impostor([](const Descriptor& visitor) {
    Impostor::send(visitor, encode(Challenge{.nonce = "n"}));
    Impostor::receive_hello(visitor);
    Impostor::send(visitor, encode(Refusal{"\x1b[2J\nno"}));
  });
  EXPECT_EQ(error_at(impostor.port()),
            fmt::format("the store at 127.0.0.1:{} turned rank 3 away: ?[2J?no", impostor.port()));
}

TEST(StoreClient, NamesTheKeyThatNobodySet) {
  const StoreServer server({.ranks = 4}, kSecret);
  const auto client = join(server, 0, false);
  EXPECT_EQ(
      peer_error_of([&] { client->get("gloo/3", 100); }),
      fmt::format("no rank has set \"gloo/3\" at the store 127.0.0.1:{} within 0.1 s: some rank has not come this "
                  "far; its own output says why",
                  server.port()));
}

TEST(StoreClient, ALateAnswerIsNotTakenForAnother) {
  const StoreServer server({.ranks = 4}, kSecret);
  const auto client = join(server, 0, false);
  EXPECT_THROW(client->get("late", 0), PeerError);
  const auto other = join(server, 1, false);
  other->set("late", "too late");
  other->set("next", "right");
  EXPECT_EQ(client->get("next", kPatienceMs), "right");
}

TEST(StoreClient, AGetEndsWhenARankDies) {
  StoreServer server({.ranks = 4}, kSecret);
  const auto client = join(server, 0, false);
  server.declare_dead(2, "killed by signal 9");
  EXPECT_EQ(peer_error_of([&] { client->get("never", kPatienceMs); }), "rank 2 died: killed by signal 9");
}

TEST(StoreClient, SaysSoWhenTheServerIsGone) {
  std::optional<StoreServer> server;
  server.emplace(StoreServer::Options{.ranks = 4}, kSecret);
  const auto plain = join(*server, 0, false);
  const auto watching = join(*server, 1, true);
  const std::string text =
      fmt::format("the rendezvous store is gone (its process died); it was at 127.0.0.1:{}", server->port());
  server.reset();
  EXPECT_EQ(peer_error_of([&] { plain->get("key", kPatienceMs); }), text);
  EXPECT_EQ(peer_error_of([&] { watching->news(); }), text);
  EXPECT_EQ(peer_error_of([&] { plain->set("key", ""); }), text);
}

TEST(StoreClient, NewsThatCameBeforeTheEndAreStillHeard) {
  std::optional<StoreServer> server;
  server.emplace(StoreServer::Options{.ranks = 4}, kSecret);
  const auto witness = join(*server, 0, true);
  const auto watcher = join(*server, 1, true);
  server->declare_dead(3, "killed by signal 9");
  NewsListener(*witness).next();  // now the watcher's is on its way, too
  server.reset();
  EXPECT_EQ(failure_text(NewsListener(*watcher).next()), "rank 3 died: killed by signal 9");
  EXPECT_THROW(watcher->news(), PeerError);
}

TEST(StoreClient, KnowsTheAddressByWhichItReachedTheServer) {
  const StoreServer server({.ranks = 4}, kSecret);
  EXPECT_EQ(join(server, 0, false)->local_address(), "127.0.0.1");
}

}  // namespace
}  // namespace paceline
