#include "paceline/ps/front_door.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

constexpr int64_t kLongMs = 600'000;

// A client's end, to an address on loopback.
class Caller {
 public:
  explicit Caller(uint16_t port, int family = AF_INET) : socket_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    const bool four = family == AF_INET;
    const auto* const to = four ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
    if (::connect(socket_.number(), to, four ? sizeof(v4) : sizeof(v6)) != 0) throw PeerError("nobody listens");
    const timeval patience = {.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  void say(char byte = 'x') { EXPECT_EQ(::send(socket_.number(), &byte, 1, MSG_NOSIGNAL), 1); }
  bool is_closed() {  // waits
    char byte = 0;
    const ssize_t got = ::recv(socket_.number(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  bool is_open() {
    char byte = 0;
    return ::recv(socket_.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  std::string address() const {
    const Endpoint end = own_end(socket_.number());
    return end.text(end.port);
  }

 private:
  Descriptor socket_;
};

class FrontDoorTest : public testing::Test {
 protected:
  uint16_t open(const std::string& host, size_t strangers, int64_t silence_ms) {
    const Endpoint endpoint = {.host = host};
    auto listener = std::make_unique<Listener>(endpoint, resolve(endpoint).front());
    const uint16_t port = listener->port();
    door_ = std::make_unique<FrontDoor>(std::move(listener), options(strangers, silence_ms), refusals_);
    return port;
  }
  FrontDoor::Options options(size_t strangers, int64_t silence_ms) {
    const auto hand_on = [this](int socket) {
      const std::lock_guard lock(mutex_);
      inside_.emplace_back(socket);
      changed_.notify_all();
    };
    return {.strangers = strangers, .silence_ms = silence_ms, .hand_on = hand_on};
  }
  void await_inside(size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return inside_.size() >= count; }));
  }

  RefusalLog refusals_{nullptr};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Descriptor> inside_;
  std::unique_ptr<FrontDoor> door_;
};

TEST_F(FrontDoorTest, HandsOnThoseThatSpeakWithAllThatTheySaid) {
  const uint16_t port = open("127.0.0.1", 8, kLongMs);
  Caller idle(port), speaker(port);
  speaker.say('s');
  await_inside(1);
  char byte = 0;
  EXPECT_EQ(::recv(inside_[0].number(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 's');
  EXPECT_EQ(inside_.size(), 1u);
  EXPECT_TRUE(idle.is_open());
}

TEST_F(FrontDoorTest, ClosesThoseThatSayNothing) {
  Caller idle(open("127.0.0.1", 8, 20));
  EXPECT_TRUE(idle.is_closed());
}

TEST_F(FrontDoorTest, ClosesThoseThatSpeakAndDoNotBecomeKnown) {
  Caller speaker(open("127.0.0.1", 8, 20));
  speaker.say();
  EXPECT_TRUE(speaker.is_closed());
}

TEST_F(FrontDoorTest, KeepsThoseThatAreKnown) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const bool four = host[0] == '1';
    const uint16_t port = open(host, 2, kLongMs);
    Caller known(port, four ? AF_INET : AF_INET6);
    known.say();
    await_inside(1);
    door_->knows(four ? "ipv4:" + known.address()
                      : "ipv6:%5B::1%5D:" + known.address().substr(known.address().rfind(':') + 1));
    std::vector<std::unique_ptr<Caller>> strangers;
    for (size_t i = 0; i < 20; ++i) {  // all but two are turned away
      strangers.push_back(std::make_unique<Caller>(port, four ? AF_INET : AF_INET6));
      strangers.back()->say();
    }
    const auto closed = [&] { return std::ranges::count_if(strangers, [](auto& each) { return !each->is_open(); }); };
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (closed() < 18 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_EQ(closed(), 18) << host;
    EXPECT_TRUE(known.is_open()) << host;
    door_.reset();
    inside_.clear();
  }
}

TEST_F(FrontDoorTest, WhoSpeaksStaysWhileIdleStrangersCrowdTheDoor) {
  const uint16_t port = open("127.0.0.1", 4, kLongMs);
  Caller honest(port);
  honest.say();
  await_inside(1);
  std::vector<std::unique_ptr<Caller>> idle;
  for (size_t i = 0; i < 50; ++i) idle.push_back(std::make_unique<Caller>(port));
  for (size_t i = 0; i < 40; ++i) EXPECT_TRUE(idle[i]->is_closed()) << i;
  EXPECT_TRUE(honest.is_open());
  Caller late(port);
  late.say();
  await_inside(2);
}

TEST_F(FrontDoorTest, AUnixSocketIsADoorToo) {
  const TestFolder folder;
  const std::string path = folder.path() / "socket";
  sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(to.sun_path, sizeof(to.sun_path) - 1);
  {
    const Descriptor killed(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(killed.number(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path));  // what a process that was killed leaves
  auto listener = std::make_unique<Listener>(Endpoint{.socket_path = path}, std::nullopt);
  door_ = std::make_unique<FrontDoor>(std::move(listener), options(8, kLongMs), refusals_);
  const Descriptor caller(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(caller.number(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  ASSERT_EQ(::send(caller.number(), "x", 1, 0), 1);
  await_inside(1);
  door_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Listener, SaysWhatIsInTheWay) {
  const Endpoint endpoint = {.host = "127.0.0.1"};
  const Listener first(endpoint, resolve(endpoint).front());
  const auto at = [](const std::string& host, uint16_t port) {
    return Listener({.host = host, .port = port}, ResolvedAddress{.host = host, .port = port}).port();
  };
  EXPECT_THAT([&] { at("127.0.0.1", first.port()); },
              testing::ThrowsMessage<PeerError>(testing::HasSubstr("the port is in use")));
  EXPECT_THAT([&] { at("192.0.2.77", 0); },
              testing::ThrowsMessage<PeerError>(testing::HasSubstr("not one of this machine's")));
  EXPECT_GT(at("0.0.0.0", 0), 0);
}

TEST(DescriptorBudget, KeepsRoomForPeersThatAreKnown) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const DescriptorBudget raised = descriptor_budget(100);
  rlimit now = {};
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_GT(now.rlim_cur, 64u);
  EXPECT_LE(raised.connections + 2 * raised.strangers, now.rlim_cur);
  EXPECT_EQ(raised.connections, 100u);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace paceline
