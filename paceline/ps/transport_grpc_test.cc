#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

#include "paceline/core/test_folder.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_transport.h"

namespace paceline {
namespace {

using testing::HasSubstr;

constexpr int64_t kPatienceMs = 20'000;
const std::string kAnyPort = "127.0.0.1:0";

TEST(Transport, MessagesOfAllSizesArriveWholeAndInOrderBothWays) {
  const TransportLimits limits = {.body_bytes = 1 << 20};
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, limits, handler);
  const auto client = connect(server->address(), {}, limits);
  const std::vector<size_t> sizes = {0, 1, 3, 4, 5, 23, 24, 255, 4096, 16384, 65537, (1 << 20) - 1, 1 << 20};
  for (unsigned round = 0; round < 3; ++round) {
    for (const size_t bytes : sizes) client->send(test_message(std::string(bytes % 7919, 'h'), bytes, round));
  }
  client->send(test_message(std::string(kMostHeadBytes, 'H'), 1 << 20));
  for (unsigned round = 0; round < 3; ++round) {
    for (const size_t bytes : sizes) {
      const Message got = client->receive(kPatienceMs);
      EXPECT_EQ(got.head, std::string(bytes % 7919, 'h'));
      EXPECT_TRUE(bytes_of(got.body) == bytes_of(test_message("", bytes, round).body)) << bytes;
    }
  }
  EXPECT_EQ(client->receive(kPatienceMs).head.size(), kMostHeadBytes);
}

TEST(Transport, ABodyOfSeveralPiecesArrivesAsOne) {
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  const std::vector<std::byte> bytes = bytes_of(test_message("", 100'000).body);
  const std::span<const std::byte> all = bytes;
  client->send(
      {"pieces", Body({all.first(1), all.subspan(1, 0), all.subspan(1, 70'000), all.subspan(70'001)}, nullptr)});
  const Message got = client->receive(kPatienceMs);
  EXPECT_TRUE(bytes_of(got.body) == bytes);
  std::vector<std::byte> part(10);
  got.body.copy_to(part, 69'995);
  EXPECT_TRUE(std::ranges::equal(part, all.subspan(69'995, 10)));
}

TEST(Transport, WhatABodyKeepsIsLetGoOnceItIsSent) {
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  std::promise<void> let_go;
  {
    std::vector<std::byte>* const bytes = new std::vector<std::byte>(1000);
    const std::shared_ptr<const void> keep(bytes, [&let_go](std::vector<std::byte>* own) {
      delete own;
      let_go.set_value();
    });
    client->send({"", Body(std::span<const std::byte>(*bytes), keep)});
  }
  EXPECT_EQ(client->receive(kPatienceMs).body.size(), 1000u);
  EXPECT_EQ(let_go.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(Transport, AReceivedBodyOutlivesItsConnectionAndServer) {
  RecordingHandler handler(echo());
  Message got;
  {
    const auto server = serve(kAnyPort, {}, {}, handler);
    const auto client = connect(server->address(), {}, {});
    client->send(test_message("kept", 300'000));
    got = client->receive(kPatienceMs);
  }
  EXPECT_TRUE(bytes_of(got.body) == bytes_of(test_message("", 300'000).body));
}

TEST(Transport, ManyConnectionsOnSeveralThreadsDoNotMixTheirMessages) {
  constexpr int kConnections = 40, kMessages = 20;
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, {}, handler, 3);
  std::vector<std::unique_ptr<ClientConnection>> clients;
  for (int i = 0; i < kConnections; ++i) clients.push_back(connect(server->address(), {}, {}));
  for (int n = 0; n < kMessages; ++n) {
    for (int i = 0; i < kConnections; ++i) clients[i]->send(test_message(std::to_string(i * 1000 + n), n * 100));
  }
  for (int i = 0; i < kConnections; ++i) {
    for (int n = 0; n < kMessages; ++n) EXPECT_EQ(clients[i]->receive(kPatienceMs).head, std::to_string(i * 1000 + n));
  }
}

TEST(Transport, SeveralThreadsMaySendOnOneConnection) {
  constexpr int kThreads = 4, kMessages = 200;
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  std::vector<std::thread> senders;
  for (int t = 0; t < kThreads; ++t) {
    senders.emplace_back([&, t] {
      for (int n = 0; n < kMessages; ++n) client->send(test_message(std::string(1, static_cast<char>('a' + t)), n));
    });
  }
  std::vector<int> next(kThreads, 0);
  for (int i = 0; i < kThreads * kMessages; ++i) {
    const Message got = client->receive(kPatienceMs);
    EXPECT_EQ(got.body.size(), static_cast<size_t>(next[got.head[0] - 'a']++));
  }
  for (std::thread& sender : senders) sender.join();
}

TEST(Transport, TheServerMaySpeakFirstAndFromAnyThread) {
  RecordingHandler handler;
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  const std::shared_ptr<Connection> connection = handler.connection(0);
  EXPECT_THAT(connection->peer(), HasSubstr("ipv4:127.0.0.1:"));
  for (int i = 0; i < 100; ++i) connection->send(test_message(std::to_string(i), i));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client->receive(kPatienceMs).head, std::to_string(i));
}

TEST(Transport, TheClientHearsWhyTheServerClosesAfterWhatWasSentBefore) {
  RecordingHandler handler;
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  const std::shared_ptr<Connection> connection = handler.connection(0);
  for (int i = 0; i < 20; ++i) connection->send(test_message(std::to_string(i), 100'000));
  connection->close("worker 3 belongs to another run: 100 %\nof it");
  EXPECT_THAT(error_of([&] { connection->send({}); }), HasSubstr("another run"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client->receive(kPatienceMs).head, std::to_string(i));
  EXPECT_THAT(error_of([&] { client->receive(kPatienceMs); }),
              HasSubstr("worker 3 belongs to another run: 100 %\nof it"));
  EXPECT_THAT(error_of([&] { client->send({}); }), HasSubstr("another run"));
  EXPECT_THAT(handler.why_closed(0), HasSubstr("another run"));
}

TEST(Transport, TheServerHearsWhyAClientCloses) {
  RecordingHandler handler;
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  for (int i = 0; i < 20; ++i) client->send(test_message("", 100'000));
  client->close("the run is over");
  EXPECT_THAT(error_of([&] { client->send({}); }), HasSubstr("the run is over"));
  EXPECT_THAT(error_of([&] { client->receive(kPatienceMs); }), HasSubstr("the run is over"));
  EXPECT_EQ(handler.why_closed(0), "the run is over");
  EXPECT_EQ(handler.await_received(20), 20);
  connect(server->address(), {}, {}).reset();
  EXPECT_EQ(handler.why_closed(1), "the client is done");
}

TEST(Transport, AHandlersExceptionClosesItsConnectionOnly) {
  RecordingHandler handler([](const std::shared_ptr<Connection>& connection, Message message) {
    if (message.head == "bad") throw PeerError("push 7 has the wrong length");
    connection->send(std::move(message));
  });
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto bystander = connect(server->address(), {}, {});
  const auto client = connect(server->address(), {}, {});
  client->send({"bad", {}});
  EXPECT_THAT(error_of([&] { client->receive(kPatienceMs); }), HasSubstr("push 7 has the wrong length"));
  bystander->send({"good", {}});
  EXPECT_EQ(bystander->receive(kPatienceMs).head, "good");
}

TEST(Transport, ReceivingNothingEndsAfterItsTimeAndTheConnectionGoesOn) {
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  EXPECT_THAT(error_of([&] { client->receive(30); }), HasSubstr("sent nothing for 30 ms"));
  client->send({"late", {}});
  EXPECT_EQ(client->receive(kPatienceMs).head, "late");
}

// Started anew by the next test as a process of its own: gRPC's threads do not survive a fork.
TEST(Transport, DISABLED_ClientThatWaitsToBeKilled) {
  const auto client = connect(std::getenv("PACELINE_TEST_SERVER"), {}, {});
  client->send({"ready", {}});
  client->receive(600'000);
}

TEST(Transport, AKilledClientIsNoticed) {
  RecordingHandler handler;
  const auto server = serve(kAnyPort, {}, {}, handler);
  // All that the child needs is made before the fork: other threads may hold locks that it would wait for.
  std::string self = "transport_test", filter = "--gtest_filter=*ClientThatWaitsToBeKilled",
              disabled = "--gtest_also_run_disabled_tests", address = "PACELINE_TEST_SERVER=" + server->address();
  char* const arguments[] = {self.data(), filter.data(), disabled.data(), nullptr};
  std::vector<char*> environment = {address.data()};
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execve("/proc/self/exe", arguments, environment.data());
    _exit(127);
  }
  handler.await_received(1);
  EXPECT_EQ(handler.closed_count(), 0u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(handler.why_closed(0), HasSubstr("the connection was lost"));
}

TEST(Transport, AServerThatStopsIsNoticed) {
  RecordingHandler handler;
  auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  server.reset();
  EXPECT_THAT(error_of([&] { client->receive(kPatienceMs); }), HasSubstr("the server stops"));
  EXPECT_EQ(handler.why_closed(0), "the server stops");
  EXPECT_THAT(error_of([&] { handler.connection(0)->send({}); }), HasSubstr("the server stops"));
}

TEST(Transport, AClientThatReadsNothingLosesItsConnectionBeforeMemoryIsFull) {
  const TransportLimits limits = {.body_bytes = 1 << 20, .queued_bytes = 4 << 20};
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, limits, handler);
  const auto bystander = connect(server->address(), {}, limits);
  const auto client = connect(server->address(), {}, limits);
  const std::shared_ptr<Connection> connection = handler.connection(1);
  size_t sent = 0;
  const std::string failure = error_of([&] {
    for (; sent < 1000; ++sent) connection->send(test_message("", 1 << 20));
  });
  EXPECT_THAT(failure, HasSubstr("does not read"));
  EXPECT_LT(sent, 64u);  // the queue, both sockets, and what the client reads ahead
  EXPECT_THAT(handler.why_closed(1), HasSubstr("does not read"));
  EXPECT_THAT(error_of([&] {
                for (;;) client->receive(kPatienceMs);
              }),
              HasSubstr("did not read"));
  bystander->send({"fine", {}});
  EXPECT_EQ(bystander->receive(kPatienceMs).head, "fine");
}

TEST(Transport, AClientWaitsForAServerThatReadsSlowly) {
  const TransportLimits limits = {.body_bytes = 1 << 20, .queued_bytes = 2 << 20};
  std::promise<void> go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  RecordingHandler handler([&](const auto&, Message) { may_go_on.wait(); });
  const auto server = serve(kAnyPort, {}, limits, handler);
  const auto client = connect(server->address(), {}, limits);
  std::atomic<int> sent = 0;
  std::thread sender([&] {
    for (; sent < 100; ++sent) client->send(test_message("", 1 << 20));
  });
  for (int before = -1; before != sent; std::this_thread::sleep_for(std::chrono::milliseconds(100))) before = sent;
  EXPECT_LT(sent, 60);  // the rest waits
  go_on.set_value();
  sender.join();
  EXPECT_EQ(handler.await_received(100), 100);
}

TEST(Transport, OversizeMessagesEndTheirConnectionOnly) {
  const TransportLimits small = {.body_bytes = 1000}, large = {.body_bytes = 4 << 20};
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, small, handler);
  const auto bystander = connect(server->address(), {}, small);
  EXPECT_THAT(error_of([&] { bystander->send(test_message("", 1001)); }), HasSubstr("cannot be sent"));
  EXPECT_THAT(error_of([&] { bystander->send(test_message(std::string(kMostHeadBytes + 1, 'h'), 0)); }),
              HasSubstr("cannot be sent"));
  for (const size_t bytes : {1001, 70'000, 4 << 20}) {
    const auto client = connect(server->address(), {}, large);
    client->send(test_message("", 1000));
    EXPECT_EQ(client->receive(kPatienceMs).body.size(), 1000u);
    client->send(test_message("", bytes));
    EXPECT_THAT(error_of([&] { client->receive(kPatienceMs); }),
                testing::AnyOf(HasSubstr("larger than"), HasSubstr("1000 are the most")))
        << bytes;
  }
  for (size_t i = 1; i <= 3; ++i) EXPECT_THAT(handler.why_closed(i), HasSubstr("1000"));
  EXPECT_EQ(handler.await_received(3), 3);
  bystander->send({"fine", {}});
  EXPECT_EQ(bystander->receive(kPatienceMs).head, "fine");
}

TEST(Transport, MoreClientsThanMayBeAreRefused) {
  const TransportLimits limits = {.connections = 2};
  RecordingHandler handler;
  const auto server = serve(kAnyPort, {}, limits, handler);
  auto first = connect(server->address(), {}, limits);
  const auto second = connect(server->address(), {}, limits);
  EXPECT_THAT(error_of([&] { connect(server->address(), {}, limits); }), HasSubstr("has 2 connections"));
  first.reset();
  handler.why_closed(0);
  // The place is free a moment after closed() has been called.
  std::unique_ptr<ClientConnection> third;
  for (int i = 0; i < 100 && !third; ++i) error_of([&] { third = connect(server->address(), {}, limits); });
  EXPECT_TRUE(third);
}

TEST(Transport, EndsWithConnectionsOpenAndCallsUnderWay) {
  for (int round = 0; round < 5; ++round) {
    RecordingHandler handler(echo());
    auto server = serve(kAnyPort, {}, {}, handler, 2);
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&, address = server->address()] {
        EXPECT_THAT(error_of([&] {
                      const auto client = connect(address, {}, {});
                      for (;;) {
                        for (int n = 0; n < 10; ++n) client->send(test_message("", 50'000));
                        for (int n = 0; n < 5; ++n) client->receive(kPatienceMs);
                      }
                    }),
                    testing::Not(""));
      });
    }
    handler.await_received(50);
    server.reset();
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(handler.closed_count(), handler.opened_count());
  }
}

TEST(Transport, WorksOnIpv6AndUnixSockets) {
  const TestFolder folder;
  RecordingHandler handler(echo());
  for (const std::string& address :
       {std::string("[::1]:0"), "unix:" + (folder.path() / "socket").string(), std::string("localhost:0")}) {
    const auto server = serve(address, {}, {}, handler);
    const auto client = connect(server->address(), {}, {});
    client->send({address, {}});
    EXPECT_EQ(client->receive(kPatienceMs).head, address);
  }
}

}  // namespace
}  // namespace paceline
