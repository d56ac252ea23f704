#include "paceline/rendezvous/peer_mesh.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "paceline/rendezvous/test_store.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, int64_t timeout_ms) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return values_.contains(key); }))
      throw PeerError("nobody has set " + key);
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

const Secret kSecret("of this test");

MeshOptions options_of(int rank, int ranks) {
  return {.rank = rank, .ranks = ranks, .group = "world", .address = "127.0.0.1", .timeout_ms = kPatienceMs};
}

uint16_t port_of(Store& store, int rank) {
  return static_cast<uint16_t>(std::stoi(store.get(fmt::format("peers/0/world/{}", rank), kPatienceMs)));
}

Descriptor connect_as_stranger(uint16_t port) {
  std::string why_not;
  return std::move(*try_to_connect("127.0.0.1", port, Deadline(kPatienceMs), why_not));
}

std::string all_until_closed(const Descriptor& socket) {
  std::string got;
  const Deadline deadline(kPatienceMs);
  while (wait_to_read(socket, deadline) && read_some(socket, got) != Transfer::closed) {
  }
  return got;
}

// Everything that has a byte to say says it, and reads that of the other end.
void expect_connected(const Descriptor& one, const Descriptor& other, const std::string& text) {
  ASSERT_TRUE(write_all(one, text, Deadline(kPatienceMs)));
  std::string got;
  while (got.size() < text.size() && wait_to_read(other, Deadline(kPatienceMs)) &&
         read_some(other, got) != Transfer::closed) {
  }
  EXPECT_EQ(got, text);
}

TEST(PeerMesh, ConnectsEveryRankWithEveryOther) {
  constexpr int kRanks = 5;
  MemoryStore store;
  const Alarm alarm;
  std::vector<std::vector<Descriptor>> meshes(kRanks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] { meshes[rank] = connect_mesh(options_of(rank, kRanks), kSecret, store, alarm); });
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(meshes[rank].size(), static_cast<size_t>(kRanks));
    EXPECT_LT(meshes[rank][rank].number(), 0);
    for (int peer = 0; peer < rank; ++peer) {
      expect_connected(meshes[rank][peer], meshes[peer][rank], fmt::format("from {} to {}", rank, peer));
      expect_connected(meshes[peer][rank], meshes[rank][peer], fmt::format("from {} to {}", peer, rank));
    }
  }
}

TEST(PeerMesh, AStrangerThatConnectsFirstDoesNotBecomeTheRank) {
  MemoryStore store;
  const Alarm alarm;
  std::vector<std::vector<Descriptor>> meshes(2);
  std::vector<std::string> refused;
  MeshOptions options = options_of(0, 2);
  options.refused = [&](const std::string& text) { refused.push_back(text); };
  std::jthread rank_0([&] { meshes[0] = connect_mesh(options, kSecret, store, alarm); });
  const uint16_t port = port_of(store, 0);
  const Descriptor liar = connect_as_stranger(port);
  ASSERT_TRUE(write_all(liar, fmt::format("{:n>32}00000001{:0>64}", "", ""), Deadline(kPatienceMs)));
  EXPECT_EQ(all_until_closed(liar).size(), 48u) << "it was told more than the challenge";
  const Descriptor silent = connect_as_stranger(port);
  meshes[1] = connect_mesh(options_of(1, 2), kSecret, store, alarm);
  rank_0.join();
  expect_connected(meshes[0][1], meshes[1][0], "a gradient");
  EXPECT_EQ(all_until_closed(silent).size(), 48u);
  EXPECT_THAT(refused, ElementsAre(StartsWith("rank 0: a connection from 127.0.0.1:")));
  EXPECT_THAT(refused[0], HasSubstr("was turned away: it does not know the secret of this run"));
}

TEST(PeerMesh, AStrangerCannotSendTheProofOfAnotherConnection) {
  MemoryStore store;
  const Alarm alarm;
  std::jthread rank_0([&] {
    const std::string error = peer_error_of([&] {
      MeshOptions options = options_of(0, 2);
      options.timeout_ms = 300;
      connect_mesh(options, kSecret, store, alarm);
    });
    EXPECT_THAT(error, HasSubstr("rank 1 did not come to be connected"));
  });
  const uint16_t port = port_of(store, 0);
  // A rank's true answer to another challenge.
  const std::string client_nonce(32, 'a');
  const std::string proof =
      kSecret.prove({"peer client", std::string(32, 'b'), client_nonce, "world", "generation 0 server 0 client 1"});
  const Descriptor stranger = connect_as_stranger(port);
  ASSERT_TRUE(write_all(stranger, client_nonce + "00000001" + proof, Deadline(kPatienceMs)));
  EXPECT_EQ(all_until_closed(stranger).size(), 48u);
}

TEST(PeerMesh, AStrangerThatListensWhereARankDidIsNotTrusted) {
  MemoryStore store;
  const Alarm alarm;
  const Descriptor listener = listen_at("127.0.0.1", 0);
  store.set("peers/0/world/0", fmt::format("{} 127.0.0.1", local_address_of(listener).port));
  std::jthread stranger([&] {
    ASSERT_TRUE(wait_to_read(listener, Deadline(kPatienceMs)));
    const auto socket = accept_from(listener);
    write_all(*socket, fmt::format("paceline peer 1\n{:n>32}{:0>64}", "", ""), Deadline(kPatienceMs));
    all_until_closed(*socket);
  });
  const std::string error = peer_error_of([&] { connect_mesh(options_of(1, 2), kSecret, store, alarm); });
  EXPECT_THAT(error, HasSubstr("in place of rank 0 does not know the secret of this run"));
}

TEST(PeerMesh, ManyStrangersDoNotKeepARankOut) {
  MemoryStore store;
  const Alarm alarm;
  std::vector<std::vector<Descriptor>> meshes(2);
  std::jthread rank_0([&] { meshes[0] = connect_mesh(options_of(0, 2), kSecret, store, alarm); });
  const uint16_t port = port_of(store, 0);
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(connect_as_stranger(port));
  meshes[1] = connect_mesh(options_of(1, 2), kSecret, store, alarm);
  rank_0.join();
  expect_connected(meshes[0][1], meshes[1][0], "a gradient");
}

TEST(PeerMesh, ASilentStrangerIsClosedInTime) {
  MemoryStore store;
  const Alarm alarm;
  MeshOptions options = options_of(0, 2);
  options.silence_ms = 20;
  std::vector<Descriptor> mesh;
  std::jthread rank_0([&] { mesh = connect_mesh(options, kSecret, store, alarm); });
  const Descriptor silent = connect_as_stranger(port_of(store, 0));
  EXPECT_EQ(all_until_closed(silent).size(), 48u);
  connect_mesh(options_of(1, 2), kSecret, store, alarm);
}

TEST(PeerMesh, NamesTheRanksThatNeverCame) {
  MemoryStore store;
  const Alarm alarm;
  MeshOptions options = options_of(0, 3);
  options.timeout_ms = 50;
  EXPECT_THAT(peer_error_of([&] { connect_mesh(options, kSecret, store, alarm); }),
              StartsWith("rank 0: ranks 1 and 2 did not come to be connected within 0.1 s; can they reach 127.0.0.1:"));
  options.rank = 2;
  EXPECT_THAT(peer_error_of([&] { connect_mesh(options, kSecret, store, alarm); }),
              StartsWith("rank 2: no connection with rank 0 at 127.0.0.1:"));
}

TEST(PeerMesh, ARaisedAlarmEndsTheWait) {
  MemoryStore store;
  Alarm alarm;
  const std::jthread watchdog([&] {
    store.get("peers/0/world/0", kPatienceMs);
    alarm.raise("rank 1 died: killed by signal 9");
  });
  EXPECT_EQ(peer_error_of([&] { connect_mesh(options_of(0, 2), kSecret, store, alarm); }),
            "rank 1 died: killed by signal 9");
}

TEST(PeerMesh, RefusesAnAddressThatDoesNotResolveOrIsNotOfThisHost) {
  MemoryStore store;
  const Alarm alarm;
  const auto error_at = [&](const std::string& address) {
    MeshOptions options = options_of(0, 2);
    options.address = address;
    return peer_error_of([&] { connect_mesh(options, kSecret, store, alarm); });
  };
  EXPECT_THAT(error_at("no such host"), HasSubstr("\"no such host\" does not resolve"));
  EXPECT_THAT(error_at("192.0.2.1"), HasSubstr("it is not an address of this machine"));
}

}  // namespace
}  // namespace paceline
