// Strangers that open more connections than a server may have files: the server stays there for those that are known.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "paceline/ps/endpoint.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_transport.h"
#include "paceline/rendezvous/descriptor.h"

namespace paceline {
namespace {

constexpr rlim_t kMostFiles = 128;
constexpr size_t kStrangers = 400;
const TransportSecurity kSecurity = {.token = "secret of the run"};

// A process of its own, made before this one uses gRPC: a server that answers what it is sent, until it is killed.
class LimitedServer {
 public:
  LimitedServer() {
    int pipe[2];
    if (::pipe(pipe) != 0) throw FileError("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve_until_killed(pipe[1]);
    }
    ::close(pipe[1]);
    char text[64] = "";
    EXPECT_GT(::read(pipe[0], text, sizeof(text) - 1), 0);
    ::close(pipe[0]);
    address_ = text;
  }
  ~LimitedServer() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

 private:
  [[noreturn]] static void serve_until_killed(int to) {
    const rlimit limit = {.rlim_cur = kMostFiles, .rlim_max = kMostFiles};
    RecordingHandler handler(echo());
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) {
      const auto server = serve("127.0.0.1:0", kSecurity, {.connect_timeout_ms = 60'000}, handler);
      const std::string address = server->address();
      if (::write(to, address.data(), address.size()) > 0) {
        for (;;) ::pause();
      }
    }
    ::_exit(1);
  }

  pid_t process_ = -1;
  std::string address_;
};

std::unique_ptr<ClientConnection> expect_served(const std::string& address) {
  auto client = connect(address, kSecurity, {.connect_timeout_ms = 20'000});
  client->send(test_message("fine", 10'000));
  EXPECT_EQ(client->receive(20'000).body.size(), 10'000u);
  return client;
}

TEST(TransportDescriptors, StrangersDoNotUseThemUp) {
  const LimitedServer server;
  const auto before = expect_served(server.address());
  std::vector<Descriptor> strangers;
  sockaddr_in to = {.sin_family = AF_INET,
                    .sin_port = htons(parse_endpoint(server.address()).port),
                    .sin_addr = {htonl(INADDR_LOOPBACK)}};
  for (size_t i = 0; i < kStrangers; ++i) {
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(strangers.back().number(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    if (i % 2 == 1) ::send(strangers.back().number(), "PRI", 3, MSG_NOSIGNAL);  // some begin to speak
  }
  const auto among_them = expect_served(server.address());
  strangers.clear();
  const auto after = expect_served(server.address());
  for (const auto& client : {before.get(), among_them.get()}) {
    client->send(test_message("fine", 10));
    EXPECT_EQ(client->receive(20'000).body.size(), 10u);
  }
}

}  // namespace
}  // namespace paceline
