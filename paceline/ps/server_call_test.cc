#include "paceline/ps/server_call.h"

#include <gmock/gmock.h>

#include "paceline/core/clock.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/certificates.h"
#include "paceline/ps/observer.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_transport.h"
#include "paceline/ps/worker.h"

namespace paceline {
namespace {

using testing::HasSubstr;

TEST(CallsBrokenOff, OneOrTwoMayBeChanceManyInARowAreNot) {
  CallsBrokenOff calls;
  for (int round = 0; round < 3; ++round) {
    for (int i = 1; i < CallsBrokenOff::kMost; ++i) calls.count(HandshakeError("dropped"));
    calls.count(PeerError("nobody listens there"));  // the server was being started again
  }
  for (int i = 1; i < CallsBrokenOff::kMost; ++i) calls.count(HandshakeError("dropped"));
  EXPECT_THROW(calls.count(HandshakeError("dropped")), RefusedError);
}

// Without certificate, towards a server that wants one; the patience is a minute, and none of it is needed.
class WithoutCertificate : public testing::Test {
 protected:
  WithoutCertificate() {
    const CertificateFiles files = make_certificates(folder_.path(), {});
    server_ = serve("127.0.0.1:0", {read_file(files.authority), read_file(files.server), read_file(files.server_key)},
                    {}, handler_);
    options_ = {.servers = {server_->address()},
                .map = ShardMap({{"weights", 10}}, 1),
                .run = "ours",
                .security = {.authority_pem = read_file(files.authority)}};
  }

  void expect_refused_soon(const std::function<void()>& call) {
    const int64_t began_ns = SteadyClock().now_ns();
    EXPECT_THROW(
        {
          try {
            call();
          } catch (const Error& failure) {
            EXPECT_THAT(failure.what(), HasSubstr("--certs"));
            throw;
          }
        },
        RefusedError);
    EXPECT_LT(seconds_between(began_ns, SteadyClock().now_ns()), 20);
  }

  const TestFolder folder_;
  RecordingHandler handler_;
  std::unique_ptr<TransportServer> server_;
  WorkerOptions options_;
};

TEST_F(WithoutCertificate, AnObserverGivesUpAtOnce) {
  expect_refused_soon([&] { ServerObserver(options_).observe({}); });
}

TEST_F(WithoutCertificate, AWorkerGivesUpAtOnce) {
  expect_refused_soon([&] { ServerWorker worker(options_); });
}

}  // namespace
}  // namespace paceline
