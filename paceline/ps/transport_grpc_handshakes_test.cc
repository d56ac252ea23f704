// Which failures to connect are for good, and that a server tells of handshakes that failed.
#include "paceline/ps/transport_grpc_handshakes.h"

#include <gmock/gmock.h>

#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/certificates.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_transport.h"

namespace paceline {
namespace {

using testing::Contains;
using testing::HasSubstr;

const std::string kAnyPort = "127.0.0.1:0";

class KeyRing {
 public:
  KeyRing() : files_(make_certificates(folder_.path(), {})) {}
  TransportSecurity server() const {
    return {read_file(files_.authority), read_file(files_.server), read_file(files_.server_key)};
  }
  TransportSecurity client() const {
    return {read_file(files_.authority), read_file(files_.client), read_file(files_.client_key)};
  }

 private:
  const TestFolder folder_;
  const CertificateFiles files_;
};

TEST(Handshakes, AServerThatIsNotThereMayStillCome) {
  RecordingHandler handler;
  const std::string address = serve(kAnyPort, {}, {}, handler)->address();  // and gone
  try {
    connect(address, {}, {});
    FAIL();
  } catch (const RefusedError& refused) {
    FAIL() << refused.what();
  } catch (const HandshakeError& broken_off) {
    FAIL() << broken_off.what();
  } catch (const PeerError&) {
  }
}

TEST(Handshakes, AWrongTokenIsRefusedForGood) {
  RecordingHandler handler;
  const auto server = serve(kAnyPort, {.token = "secret"}, {}, handler);
  EXPECT_THROW(connect(server->address(), {.token = "guess"}, {}), RefusedError);
  EXPECT_THROW(connect(server->address(), {}, {}), RefusedError);
}

TEST(Handshakes, ASideThatWillNotHaveTheOtherSaysSoForGood) {
  const KeyRing ours, theirs;
  RecordingHandler handler;
  const auto server = serve(kAnyPort, ours.server(), {}, handler);
  EXPECT_THROW(connect(server->address(), theirs.client(), {}), RefusedError);  // we do not believe the server
  const auto plain = serve(kAnyPort, {}, {}, handler);
  EXPECT_THROW(connect(plain->address(), ours.client(), {}), RefusedError);
}

TEST(Handshakes, AServerThatDropsUsMayHaveDiedJustThen) {
  const KeyRing ours, theirs;
  RecordingHandler handler;
  const auto server = serve(kAnyPort, ours.server(), {}, handler);
  EXPECT_THROW(connect(server->address(), {.authority_pem = ours.client().authority_pem}, {}), HandshakeError);
  EXPECT_THROW(connect(server->address(), {}, {}), HandshakeError);
}

TEST(Handshakes, OnesThatFailAreInTheServersLog) {
  const KeyRing ours;
  std::vector<std::string> lines;
  Log log([&](std::string_view line) { lines.emplace_back(line); });
  RecordingHandler handler(echo());
  auto server = serve(kAnyPort, ours.server(), {}, handler, 1, &log);
  error_of([&] { connect(server->address(), {.authority_pem = ours.client().authority_pem}, {}); });
  error_of([&] { connect(server->address(), {}, {}); });
  {
    const auto client = connect(server->address(), ours.client(), {});  // is none of them
    client->send(test_message("fine", 10));
    client->receive(20'000);
  }
  server.reset();
  EXPECT_THAT(lines, Contains(HasSubstr("the TLS handshake failed: peer did not return a certificate")));
  EXPECT_EQ(lines.size(), 2u) << testing::PrintToString(lines);
}

TEST(Handshakes, AFailureIsToldAsOpenSslNamesIt) {
  EXPECT_EQ(handshake_failure("UNKNOWN:Ssl handshake failed: SSL_ERROR_SSL: error:0A0000C7:SSL routines::peer did not "
                              "return a certificate {file:\"a.cc\"}"),
            "peer did not return a certificate");
  EXPECT_EQ(handshake_failure("UNKNOWN:Handshake read failed {children:[]}"), "UNKNOWN:Handshake read failed");
  EXPECT_EQ(handshake_failure(""), "");
}

}  // namespace
}  // namespace paceline
