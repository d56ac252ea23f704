#include "paceline/ps/transport.h"

#include <algorithm>
#include <cstring>

#include "paceline/core/check.h"
#include "paceline/ps/certificates.h"

namespace paceline {

size_t Body::size() const {
  size_t bytes = 0;
  for (const auto& piece : pieces_) bytes += piece.size();
  return bytes;
}

void Body::copy_to(std::span<std::byte> into, size_t from) const {
  for (const auto& piece : pieces_) {
    if (into.empty()) return;
    if (from >= piece.size()) {
      from -= piece.size();
      continue;
    }
    const size_t bytes = std::min(piece.size() - from, into.size());
    std::memcpy(into.data(), piece.data() + from, bytes);
    into = into.subspan(bytes);
    from = 0;
  }
  CHECK_TRUE(into.empty(), "a body ends {} bytes too early", into.size());
}

void check_server_security(const TransportSecurity& security, const std::string& address, bool local) {
  if (!security.tls()) {
    if (local || security.insecure) return;
    throw UsageError(fmt::format(
        "a server at {} could be reached by anybody; give it certificates ('paceline certs DIR' makes some for tests), "
        "or serve at 127.0.0.1; in a network that you trust, --insecure lifts this",
        address));
  }
  if (security.certificate_pem.empty() || security.key_pem.empty()) {
    throw UsageError(fmt::format("the server at {} needs a certificate and its key for TLS", address));
  }
  if (security.authority_pem.empty() && security.token.empty() && !security.insecure) {
    throw UsageError(
        fmt::format("the server at {} could not tell clients from strangers; give it a token, or the "
                    "authority that signs the clients' certificates",
                    address));
  }
  check_certificate(security.certificate_pem, security.key_pem);
  if (!security.authority_pem.empty()) check_authority(security.authority_pem);
}

void check_client_security(const TransportSecurity& security, const std::string& address, bool local) {
  if (!security.tls()) {
    if (local) return;
    if (!security.insecure) {
      throw UsageError(
          fmt::format("{} is another machine, and plaintext could be read and changed on the way; give the authority "
                      "of the server's certificate; in a network that you trust, --insecure lifts this",
                      address));
    }
    if (!security.token.empty()) {
      throw UsageError(fmt::format("a token must not go to {} in plaintext; use TLS, or leave it out", address));
    }
    return;
  }
  if (security.authority_pem.empty()) {
    throw UsageError(fmt::format("to connect to {} the authority of the server's certificate is needed", address));
  }
  if (security.certificate_pem.empty() != security.key_pem.empty()) {
    throw UsageError(fmt::format("to connect to {}: a certificate needs its key, and the other way round", address));
  }
  check_authority(security.authority_pem);
  if (!security.certificate_pem.empty()) check_certificate(security.certificate_pem, security.key_pem);
}

}  // namespace paceline
