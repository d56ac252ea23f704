// Who may not talk to a server, and is told why; and that those who may do not notice.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/certificates.h"
#include "paceline/ps/endpoint.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_transport.h"

namespace paceline {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int64_t kPatienceMs = 20'000;
const std::string kAnyPort = "127.0.0.1:0";

void expect_echo(ClientConnection& client) {
  client.send(test_message("fine", 10'000));
  EXPECT_EQ(client.receive(kPatienceMs).body.size(), 10'000u);
}

class Certificates {
 public:
  explicit Certificates(const CertificateRequest& request = {}) : files_(make_certificates(folder_.path(), request)) {}
  std::string authority() const { return read_file(files_.authority); }
  TransportSecurity server() const { return {authority(), read_file(files_.server), read_file(files_.server_key)}; }
  TransportSecurity client() const { return {authority(), read_file(files_.client), read_file(files_.client_key)}; }

 private:
  const TestFolder folder_;
  const CertificateFiles files_;
};

TEST(TransportStrangers, NeedTheTokenAlsoOnLoopback) {
  std::vector<std::string> lines;
  Log log([&](std::string_view line) { lines.emplace_back(line); });
  RecordingHandler handler(echo());
  auto server = serve(kAnyPort, {.token = "secret of the run"}, {}, handler, 1, &log);
  const auto client = connect(server->address(), {.token = "secret of the run"}, {});
  expect_echo(*client);
  EXPECT_THAT(error_of([&] { connect(server->address(), {.token = "another"}, {}); }),
              HasSubstr("the server refused this run's token"));
  EXPECT_THAT(error_of([&] { connect(server->address(), {}, {}); }), HasSubstr("it wants the run's token"));
  for (int i = 0; i < 20; ++i) error_of([&] { connect(server->address(), {.token = "another"}, {}); });
  expect_echo(*client);
  EXPECT_EQ(handler.opened_count(), 1u);
  server.reset();
  ASSERT_GE(lines.size(), 5u);
  EXPECT_LT(lines.size(), 16u);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("warning: refused ipv4:127.0.0.1:"), HasSubstr("token")));
}

TEST(TransportStrangers, NeedACertificateOfTheAuthority) {
  const Certificates ours, theirs;
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, ours.server(), {}, handler);
  const auto client = connect(server->address(), ours.client(), {});
  expect_echo(*client);
  EXPECT_THAT(handler.connection(0)->peer(), HasSubstr("(Paceline client)"));

  EXPECT_THAT(error_of([&] { connect(server->address(), {.authority_pem = ours.authority()}, {}); }),
              HasSubstr("refused a client without certificate"));
  TransportSecurity impostor = theirs.client();
  impostor.authority_pem = ours.authority();
  EXPECT_THAT(error_of([&] { connect(server->address(), impostor, {}); }),
              HasSubstr("refused this client's certificate"));
  EXPECT_THAT(error_of([&] { connect(server->address(), theirs.client(), {}); }),
              HasSubstr("not signed by the authority"));
  EXPECT_THAT(error_of([&] { connect(server->address(), {}, {.connect_timeout_ms = 3000}); }),
              HasSubstr("if it wants TLS"));
  EXPECT_EQ(handler.opened_count(), 1u);
  expect_echo(*client);
}

TEST(TransportStrangers, NeedTheTokenWhereClientsHaveNoCertificate) {
  const Certificates ours;
  TransportSecurity security = ours.server();
  security.authority_pem.clear();
  security.token = "secret";
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, security, {}, handler);
  const auto client = connect(server->address(), {.authority_pem = ours.authority(), .token = "secret"}, {});
  expect_echo(*client);
  EXPECT_THAT(error_of([&] { connect(server->address(), {.authority_pem = ours.authority(), .token = "guess"}, {}); }),
              HasSubstr("refused this run's token"));
  EXPECT_THAT(error_of([&] { connect(server->address(), {.authority_pem = ours.authority()}, {}); }),
              HasSubstr("token"));
}

TEST(TransportStrangers, ATokenTakesThePlaceOfACertificateWhereTheServerSaysSo) {
  const Certificates ours, theirs;
  RecordingHandler handler(echo());
  TransportSecurity security = ours.server();
  security.token = "secret";
  security.token_suffices = true;
  const auto server = serve(kAnyPort, security, {}, handler);
  const auto refusal = [&](const TransportSecurity& client) {
    return error_of([&] { connect(server->address(), client, {}); });
  };
  const auto with_token = connect(server->address(), {.authority_pem = ours.authority(), .token = "secret"}, {});
  expect_echo(*with_token);
  EXPECT_EQ(handler.connection(0)->certified_as(), CertifiedAs::none);
  TransportSecurity both = ours.client();
  both.token = "secret";
  const auto with_both = connect(server->address(), both, {});
  expect_echo(*with_both);
  EXPECT_EQ(handler.connection(1)->certified_as(), CertifiedAs::client);
  TransportSecurity shard = ours.server();
  shard.token = "secret";
  connect(server->address(), shard, {});
  EXPECT_EQ(handler.connection(2)->certified_as(), CertifiedAs::server);

  EXPECT_THAT(refusal({.authority_pem = ours.authority()}), HasSubstr("it wants the run's token"));
  EXPECT_THAT(refusal({.authority_pem = ours.authority(), .token = "guess"}), HasSubstr("refused this run's token"));
  EXPECT_THAT(refusal(ours.client()), HasSubstr("it wants the run's token"));
  TransportSecurity impostor = theirs.client();
  impostor.authority_pem = ours.authority();
  impostor.token = "secret";
  EXPECT_THAT(refusal(impostor), HasSubstr("refused this client's certificate"));

  security.token_suffices = false;
  const auto strict = serve(kAnyPort, security, {}, handler);
  EXPECT_THAT(error_of([&] { connect(strict->address(), {.authority_pem = ours.authority(), .token = "secret"}, {}); }),
              HasSubstr("refused a client without certificate"));
  EXPECT_EQ(error_of([&] { connect(strict->address(), both, {}); }), "");
}

TEST(TransportStrangers, AServerUnderAnotherNameIsNotBelieved) {
  const Certificates elsewhere({.hosts = {"node7.example", "10.1.2.3"}});
  RecordingHandler handler;
  const auto server = serve(kAnyPort, elsewhere.server(), {}, handler);
  EXPECT_THAT(error_of([&] { connect(server->address(), elsewhere.client(), {}); }), HasSubstr("for other hosts"));
  const Certificates named({.hosts = {"localhost"}});
  const auto by_name = serve("localhost:0", named.server(), {}, handler);
  EXPECT_EQ(error_of([&] { connect(by_name->address(), named.client(), {}); }), "");
}

TEST(TransportStrangers, APlaintextServerIsNoServerForTls) {
  const Certificates ours;
  RecordingHandler handler;
  const auto server = serve(kAnyPort, {}, {}, handler);
  EXPECT_THAT(error_of([&] { connect(server->address(), ours.client(), {.connect_timeout_ms = 5000}); }),
              HasSubstr("does not speak TLS"));
}

TEST(TransportStrangers, PlaintextStaysOnThisMachine) {
  RecordingHandler handler;
  EXPECT_THROW(serve("0.0.0.0:0", {}, {}, handler), UsageError);
  EXPECT_THROW(serve("[::]:0", {}, {}, handler), UsageError);
  EXPECT_THROW(serve("0.0.0.0:0", {.token = "secret"}, {}, handler), UsageError);
  EXPECT_THAT(error_of([&] { serve("0.0.0.0:0", {}, {}, handler); }), HasSubstr("paceline certs"));
  EXPECT_THROW(connect("192.0.2.77:1", {}, {}), UsageError);
  EXPECT_THROW(connect("192.0.2.77:1", {.token = "secret", .insecure = true}, {}), UsageError);
  const auto server = serve("0.0.0.0:0", {.insecure = true}, {}, handler);
  EXPECT_EQ(error_of([&] { connect("127.0.0.1" + server->address().substr(7), {}, {}); }), "");
}

TEST(TransportStrangers, WrongSettingsAreRefusedAtTheStart) {
  const Certificates ours, theirs;
  RecordingHandler handler;
  for (const char* const address : {"", "4000", ":4000", "host:", "host:70000", "::1:4000", "host:4x", "unix:"}) {
    EXPECT_THROW(serve(address, {}, {}, handler), UsageError) << address;
    EXPECT_THROW(connect(address, {}, {}), UsageError) << address;
  }
  TransportSecurity mixed = ours.server();
  mixed.key_pem = theirs.server().key_pem;
  EXPECT_THROW(serve(kAnyPort, mixed, {}, handler), FileError);
  EXPECT_THROW(serve(kAnyPort, {"rubbish", "rubbish", "rubbish"}, {}, handler), FileError);
  EXPECT_THROW(serve(kAnyPort, {.authority_pem = ours.authority()}, {}, handler), UsageError);
  TransportSecurity open = ours.server();
  open.authority_pem.clear();
  EXPECT_THROW(serve(kAnyPort, open, {}, handler), UsageError);
}

TEST(TransportStrangers, AnAddressThatCannotBeIsNamed) {
  RecordingHandler handler;
  const auto server = serve(kAnyPort, {}, {}, handler);
  EXPECT_THAT(error_of([&] { serve(server->address(), {}, {}, handler); }), HasSubstr("the port is in use"));
  EXPECT_THROW(serve(server->address(), {}, {}, handler), PeerError);
  EXPECT_THAT(error_of([&] { serve("192.0.2.77:0", {.insecure = true}, {}, handler); }),
              HasSubstr("not one of this machine's"));
  EXPECT_THAT(error_of([&] { connect("no-such-host.invalid:4000", {}, {}); }), HasSubstr("does not resolve"));
  const std::string address = serve(kAnyPort, {}, {}, handler)->address();  // and gone
  EXPECT_THAT(error_of([&] { connect(address, {}, {}); }), HasSubstr("nobody listens there"));
}

// A peer that speaks TCP and nothing we asked for.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(parse_endpoint(address).port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) throw PeerError("no peer");
    const timeval patience = {.tv_sec = 20, .tv_usec = 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  }
  ~RawPeer() { ::close(descriptor_); }

  bool write(const std::string& bytes) {  // false: the other side has closed
    return ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  bool is_closed_by_the_other_side() {
    char bytes[4096];
    ssize_t count = 0;
    while ((count = ::recv(descriptor_, bytes, sizeof(bytes), 0)) > 0) {
    }
    return count == 0 || errno == ECONNRESET;
  }

 private:
  const int descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

std::string frame(size_t length, char type, char flags, char stream, const std::string& payload) {
  return {std::string{static_cast<char>(length >> 16), static_cast<char>(length >> 8), static_cast<char>(length), type,
                      flags, 0, 0, 0, stream} +
          payload};
}
std::string frame(char type, char flags, char stream, const std::string& payload) {
  return frame(payload.size(), type, flags, stream, payload);
}

// HTTP/2 as far as a call of our method, written by hand.
std::string opening(const std::string& method = "/paceline.Transport/Connect") {
  const auto header = [](const std::string& name, const std::string& value) {
    return std::string(1, 0) + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
  };
  const std::string headers = "\x83\x86" + header(":path", method) + header(":authority", "localhost") +
                              header("content-type", "application/grpc") + header("te", "trailers") +
                              header("paceline-transport", "1");
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "") + frame(1, 4, 1, headers);
}
std::string settings_seen() { return frame(4, 1, 0, ""); }

std::string prefixed(uint32_t length, const std::string& payload) {  // a gRPC message's length, and less of it
  const uint32_t big_endian = htonl(length);
  return std::string(1, 0) + std::string(reinterpret_cast<const char*>(&big_endian), 4) + payload;
}

TEST(TransportStrangers, GarbageAtAnyStageEndsItsConnectionOnly) {
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, {.body_bytes = 1 << 20, .connect_timeout_ms = 100}, handler);
  const auto client = connect(server->address(), {}, {});
  const std::string noise(1000, '\xa5');
  for (const std::string& bytes :
       {noise, std::string("GET / HTTP/1.1\r\n\r\n"), opening() + noise, opening("/another/Method"),
        opening() + frame(0xffffff, 0, 0, 1, noise),    // a frame of 16 MiB
        opening() + frame(0, 1, 1, prefixed(2, "ab")),  // too short to be a message
        opening() + frame(0, 1, 1,
                          prefixed(8,
                                   "\xf0\xff\xff\x7f"
                                   "abcd")),  // a head of 2 GiB
        opening().substr(0, 40), std::string()}) {
    RawPeer peer(server->address());
    peer.write(bytes);
    EXPECT_TRUE(peer.is_closed_by_the_other_side()) << testing::PrintToString(bytes);
    expect_echo(*client);
  }
  EXPECT_EQ(handler.closed_count() + 1, handler.opened_count());
}

// The limits for those that have not said who they are do not hold for clients that have.
TEST(TransportStrangers, AClientThatIsKnownMayBeSilent) {
  RecordingHandler handler(echo());
  for (const char* address : {"127.0.0.1:0", "[::1]:0"}) {
    const auto server = serve(address, {.token = "secret"}, {.connect_timeout_ms = 200}, handler);
    const auto client = connect(server->address(), {.token = "secret"}, {});
    expect_echo(*client);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    expect_echo(*client);
  }
}

size_t resident_bytes() {
  size_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

#ifdef PACELINE_SANITIZED
constexpr size_t kNoticeableBytes = size_t{1} << 40;  // sanitizers keep what was freed
#else
constexpr size_t kNoticeableBytes = size_t{64} << 20;
#endif

TEST(TransportStrangers, NothingIsReservedForAMessageThatClaimsTwoGigabytes) {
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {}, {}, handler);
  const auto client = connect(server->address(), {}, {});
  const size_t before = resident_bytes();
  {
    RawPeer peer(server->address());
    peer.write(opening() + settings_seen() + frame(0, 0, 1, prefixed(0x7fffffff, std::string(1000, 'x'))));
    handler.connection(1);
    expect_echo(*client);
    EXPECT_LT(resident_bytes(), before + kNoticeableBytes);
  }
  EXPECT_THAT(handler.why_closed(1), HasSubstr("the connection was lost"));
  expect_echo(*client);
}

TEST(TransportStrangers, AFloodOfSomebodyWithoutTokenFillsNoMemory) {
  RecordingHandler handler(echo());
  const auto server = serve(kAnyPort, {.token = "secret"}, {.connect_timeout_ms = 100}, handler);
  const auto client = connect(server->address(), {.token = "secret"}, {});
  const size_t before = resident_bytes();
  RawPeer peer(server->address());
  peer.write(opening() + settings_seen() + frame(0, 0, 1, prefixed(0x7fffffff, std::string(1000, 'x'))));
  const std::string more = frame(0, 0, 1, std::string(16384, 'x'));
  for (int frames = 0; frames < 10'000 && peer.write(more); ++frames) {
  }
  EXPECT_LT(resident_bytes(), before + kNoticeableBytes);
  EXPECT_TRUE(peer.is_closed_by_the_other_side());
  EXPECT_EQ(handler.opened_count(), 1u);
  expect_echo(*client);
}

TEST(TransportStrangers, AServerThatSaysNothingIsGivenUp) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(at);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&at), length), 0);
  ASSERT_EQ(::listen(listener, 5), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of([&] { connect(address, {}, {.connect_timeout_ms = 200}); }), HasSubstr("within 200 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  ::close(listener);
}

}  // namespace
}  // namespace paceline
