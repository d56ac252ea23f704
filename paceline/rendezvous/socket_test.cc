#include "paceline/rendezvous/socket.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "paceline/rendezvous/test_store.h"

namespace paceline {
namespace {

Descriptor connect_to(uint16_t port) {
  std::string why_not;
  auto socket = try_to_connect("127.0.0.1", port, Deadline(kPatienceMs), why_not);
  EXPECT_TRUE(socket) << why_not;
  return std::move(*socket);
}

Descriptor accept_one(const Descriptor& listener) {
  EXPECT_TRUE(wait_to_read(listener, Deadline(kPatienceMs)));
  return std::move(*accept_from(listener));
}

TEST(Socket, AddressesArePrintedAsTheyAreWritten) {
  EXPECT_EQ(address_text("host", 1), "host:1");
  EXPECT_EQ(address_text("::1", 65535), "[::1]:65535");
}

TEST(Socket, BothEndsKnowEachOthersAddress) {
  const Descriptor listener = listen_at("localhost", 0);
  const uint16_t port = local_address_of(listener).port;
  const Descriptor client = connect_to(port);
  const Descriptor server = accept_one(listener);
  EXPECT_EQ(peer_address_of(client).text(), fmt::format("127.0.0.1:{}", port));
  EXPECT_EQ(peer_address_of(server).text(), local_address_of(client).text());
  EXPECT_FALSE(accept_from(listener));
}

TEST(Socket, ListensAtEveryAddressAndWritesIPv4AsSuch) {
  const Descriptor listener = listen_at("", 0);
  const uint16_t port = local_address_of(listener).port;
  for (const char* const host : {"127.0.0.1", "127.0.1.1"}) {
    std::string why_not;
    const auto client = try_to_connect(host, port, Deadline(kPatienceMs), why_not);
    ASSERT_TRUE(client) << why_not;
    const Descriptor server = accept_one(listener);
    EXPECT_EQ(local_address_of(server).text(), fmt::format("{}:{}", host, port));
    EXPECT_EQ(peer_address_of(server).text(), local_address_of(*client).text());
  }
  EXPECT_TRUE(is_loopback("127.0.1.1") && is_loopback("::1"));
  EXPECT_FALSE(is_loopback("10.127.0.1"));
}

TEST(Socket, MovesManyBytesWhileTheOtherEndReads) {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  const Descriptor client = connect_to(local_address_of(listener).port);
  const Descriptor server = accept_one(listener);
  std::string sent;
  for (size_t i = 0; sent.size() < 2'000'000; ++i) sent += std::to_string(i);
  std::string received;
  std::thread reader([&] {
    while (wait_to_read(server, Deadline(kPatienceMs)) && read_some(server, received) != Transfer::closed) {
    }
  });
  EXPECT_TRUE(write_all(client, sent, Deadline(kPatienceMs)));
  ::shutdown(client.number(), SHUT_WR);
  reader.join();
  EXPECT_EQ(received, sent);
}

TEST(Socket, AWriteEndsWhenNobodyReads) {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  const Descriptor client = connect_to(local_address_of(listener).port);
  EXPECT_FALSE(write_all(client, std::string(64 << 20, 'x'), Deadline(10)));
}

TEST(Socket, ReadingSaysWhetherThereIsNothingOrNobody) {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  Descriptor client = connect_to(local_address_of(listener).port);
  const Descriptor server = accept_one(listener);
  std::string bytes = "kept";
  EXPECT_EQ(read_some(server, bytes), Transfer::none);
  EXPECT_FALSE(wait_to_read(server, Deadline(1)));
  EXPECT_TRUE(write_all(client, "+1", Deadline(kPatienceMs)));
  client = Descriptor();
  EXPECT_TRUE(wait_to_read(server, Deadline(kPatienceMs)));
  EXPECT_EQ(read_some(server, bytes), Transfer::some);
  EXPECT_EQ(bytes, "kept+1");
  EXPECT_TRUE(wait_to_read(server, Deadline(kPatienceMs)));
  EXPECT_EQ(read_some(server, bytes), Transfer::closed);
}

TEST(Socket, APortInUseIsNamed) {
  const Descriptor first = listen_at("127.0.0.1", 0);
  const uint16_t port = local_address_of(first).port;
  EXPECT_EQ(peer_error_of([&] { listen_at("127.0.0.1", port); }),
            fmt::format("port {} at 127.0.0.1 is in use by another program; choose another with PACELINE_PORT", port));
}

TEST(Socket, AnAddressOfAnotherMachineIsNamed) {
  EXPECT_EQ(peer_error_of([] { listen_at("192.0.2.1", 0); }),
            "cannot listen at 192.0.2.1: it is not an address of this machine");
}

TEST(Socket, ANameThatDoesNotResolveIsNamed) {
  const auto text = testing::MatchesRegex(
      "host \"nowhere.invalid\" does not resolve \\(.+\\); check its spelling, or give its address instead");
  EXPECT_THAT(peer_error_of([] { listen_at("nowhere.invalid", 0); }), text);
  std::string why_not;
  try {
    EXPECT_FALSE(try_to_connect("nowhere.invalid", 1, Deadline(100), why_not));
  } catch (const PeerError& error) {
    why_not = error.what();
  }
  EXPECT_THAT(why_not, text);
}

TEST(Socket, ARefusedConnectionIsLeftToTheCaller) {
  std::string why_not;
  EXPECT_FALSE(try_to_connect("127.0.0.1", free_port(), Deadline(kPatienceMs), why_not));
  EXPECT_EQ(why_not, "Connection refused");
}

TEST(WakeUp, StaysCalledUntilItIsCleared) {
  WakeUp wake_up;
  pollfd event{wake_up.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 0), 0);
  wake_up.call();
  wake_up.call();
  EXPECT_EQ(::poll(&event, 1, 0), 1);
  wake_up.clear();
  EXPECT_EQ(::poll(&event, 1, 0), 0);
  wake_up.clear();
}

}  // namespace
}  // namespace paceline
