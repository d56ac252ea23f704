// HandshakeWatch: TLS handshakes that failed, for a server's log of refusals.
//
// gRPC 1.51 calls nobody when a handshake fails; it only writes a line for developers, which has the reason but in most
// cases not the peer's address. The watch reads those lines, of the whole process: where several servers with TLS live
// in one (tests), all of them are told. Whoever sets GRPC_VERBOSITY gets gRPC's lines instead.
#pragma once

#include <string>
#include <string_view>

#include "paceline/ps/refusal_log.h"

namespace paceline {

class HandshakeWatch {
 public:
  explicit HandshakeWatch(RefusalLog& refusals);  // which stays until the watch is gone
  ~HandshakeWatch();
  HandshakeWatch(const HandshakeWatch&) = delete;
  HandshakeWatch& operator=(const HandshakeWatch&) = delete;

 private:
  RefusalLog& refusals_;
};

// What such a line says, for people: "peer did not return a certificate"; the whole of it where it has another form.
std::string handshake_failure(std::string_view line);

// gRPC writes its own lines to standard error otherwise, also for what is reported as an exception anyway. Whoever sets
// GRPC_VERBOSITY gets them.
void quiet_grpc();

}  // namespace paceline
