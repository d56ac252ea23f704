// Stands in for transport_grpc*.cc in a build with PACELINE_GRPC=OFF.
#include "paceline/core/error.h"
#include "paceline/ps/transport.h"

namespace paceline {
namespace {

constexpr const char* kMissing = "this build has no parameter server; build with -DPACELINE_GRPC=ON";

}  // namespace

std::unique_ptr<TransportServer> serve(const std::string&, const TransportSecurity&, const TransportLimits&,
                                       ConnectionHandler&, int, Log*) {
  throw UsageError(kMissing);
}

std::unique_ptr<ClientConnection> connect(const std::string&, const TransportSecurity&, const TransportLimits&) {
  throw UsageError(kMissing);
}

}  // namespace paceline
