// Transport: how the processes of a parameter server talk: connections that carry messages in order, both ways.
//
// A message is a small head and a body of bytes that is neither copied nor looked into on its way (gRPC's byte buffers;
// no protobuf). gRPC is in transport_grpc*.cc only; another transport for bulk data takes its place here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/log.h"

namespace paceline {

// Bytes that somebody else owns until the last Body is gone.
class Body {
 public:
  Body() = default;
  // `keep` is let go when the transport needs the bytes no longer, on any thread: its destructor must not call the
  // transport.
  Body(std::span<const std::byte> bytes, std::shared_ptr<const void> keep) : pieces_{bytes}, keep_(std::move(keep)) {}
  Body(std::vector<std::span<const std::byte>> pieces, std::shared_ptr<const void> keep)
      : pieces_(std::move(pieces)), keep_(std::move(keep)) {}

  const std::vector<std::span<const std::byte>>& pieces() const { return pieces_; }  // as they came
  const std::shared_ptr<const void>& keep() const { return keep_; }
  size_t size() const;
  void copy_to(std::span<std::byte> into, size_t from = 0) const;  // REQUIRES: from + into.size() <= size()

 private:
  std::vector<std::span<const std::byte>> pieces_;
  std::shared_ptr<const void> keep_;
};

struct Message {
  std::string head;  // at most kMostHeadBytes
  Body body;         // at most TransportLimits::body_bytes
};
inline constexpr size_t kMostHeadBytes = 64 * 1024;

struct TransportLimits {
  // At most 1 GiB. A larger message ends its connection. Nothing is reserved for what a message claims to be; but what
  // an accepted client really sends of one is kept until it is whole, and only then refused (gRPC 1.51).
  size_t body_bytes = 8 << 20;
  size_t queued_bytes = 64 << 20;       // of one connection's outgoing messages: send() then waits (client) or the
                                        // connection is closed (server): a peer that reads nothing must not fill memory
  int64_t connect_timeout_ms = 10'000;  // also what a server gives a stranger to say who it is
  int connections = 1024;               // of a server: the next client is refused
};

// Who may talk to whom. Plaintext needs loopback, or `insecure`.
struct TransportSecurity {
  std::string authority_pem;    // TLS: who signed the other side's certificate; a server with it wants one of clients
  std::string certificate_pem;  // our own; empty at a client that has a token instead
  std::string key_pem;
  std::string token;  // where clients need no certificate: known to all processes of the run, sent only over TLS or
                      // loopback
  bool token_suffices = false;  // of a server with an authority: clients that have the token need no certificate; one
                                // that they show is looked at all the same
  bool insecure = false;
  bool tls() const { return !authority_pem.empty() || !certificate_pem.empty(); }
};

// Whether this may be at all, before anything is opened: `local`, nobody but this machine can get there. Throws
// UsageError that says what is missing, FileError for certificates and keys that are none.
void check_server_security(const TransportSecurity& security, const std::string& address, bool local);
void check_client_security(const TransportSecurity& security, const std::string& address, bool local);

// What the other side's certificate says that it is (ps/certificates.h). none: it has shown no certificate.
enum class CertifiedAs : uint8_t { none, server, client, nothing };

// One end of a connection. send() and close() from any thread. Messages arrive in the order of their sends; those sent
// before close() still arrive, unless the other side reads nothing for two seconds.
class Connection {
 public:
  virtual ~Connection() = default;                    // closes
  virtual void send(Message message) = 0;             // throws PeerError when the connection is closed
  virtual void close(const std::string& reason) = 0;  // the other side is told why
  virtual std::string peer() const = 0;  // "ipv4:10.0.0.3:41234", and the certificate's name where there is one
  virtual CertifiedAs certified_as() const { return CertifiedAs::none; }  // known at a server's end
};

// What happens to a server's connections; called on the transport's threads, for one connection one call at a time:
// opened, received..., closed. An exception closes the connection with its text. A call that takes seconds holds up all
// connections of its thread, and beyond loopback a client takes a server for lost that has not answered for 15 s.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void opened(const std::shared_ptr<Connection>& connection) = 0;
  virtual void received(const std::shared_ptr<Connection>& connection, Message message) = 0;
  virtual void closed(const std::shared_ptr<Connection>& connection, const std::string& why) = 0;
};

class TransportServer {
 public:
  virtual ~TransportServer() = default;     // closes all connections, waits for calls under way; not from a handler
  virtual std::string address() const = 0;  // "127.0.0.1:41877": with the port that was chosen for 0
};

// `address`: HOST:PORT, or unix:PATH. Throws UsageError for another, for plaintext beyond loopback without `insecure`;
// FileError for certificates that cannot be read; PeerError for a port in use. Strangers that are refused, also in the
// TLS handshake, are reported to `log`, a few lines per second at most.
std::unique_ptr<TransportServer> serve(const std::string& address, const TransportSecurity& security,
                                       const TransportLimits& limits, ConnectionHandler& handler, int threads = 1,
                                       Log* log = nullptr);

// The client's end: messages are received by waiting for them.
class ClientConnection : public Connection {
 public:
  // The next message. Throws PeerError after the time-out, and with the reason when the connection has been closed.
  virtual Message receive(int64_t timeout_ms) = 0;
};

// The server will not have this process, today or later: to try again is no use.
class RefusedError : public PeerError {
 public:
  using PeerError::PeerError;
};

// Somebody listened, and ended the connection in the middle of the handshake: a server that wants TLS or a certificate
// does so without a word (gRPC 1.51), but also one that is killed just then. CallsBrokenOff tells them apart.
class HandshakeError : public PeerError {
 public:
  using PeerError::PeerError;
};

// Throws RefusedError where one side will not have the other: certificate, name or token are wrong, or the protocol's
// version; HandshakeError; PeerError with the reason for what may be better the next time: nobody listens, a name that
// does not resolve; UsageError and FileError as serve() does. Tries once: who starts before the server tries again.
std::unique_ptr<ClientConnection> connect(const std::string& address, const TransportSecurity& security,
                                          const TransportLimits& limits);

}  // namespace paceline
