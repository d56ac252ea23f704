// TCP over IPv4 and IPv6: to listen, to connect, to move bytes. Sockets here never block; who waits says until when.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "paceline/rendezvous/deadline.h"
#include "paceline/rendezvous/descriptor.h"

namespace paceline {

std::string address_text(const std::string& host, uint16_t port);  // "10.0.0.1:4000", "[::1]:4000"

// `host`: an address or a name; empty: every address of this machine. Port 0: any that is free. Throws PeerError with
// what to do: the name does not resolve, the port is in use, the address is another machine's.
Descriptor listen_at(const std::string& host, uint16_t port);

// The next connection that came in; nothing when there is none. Throws PeerError when this process cannot have more.
std::optional<Descriptor> accept_from(const Descriptor& listener);

// Once: a refused connection is left to the caller. `why_not` says, for people, what was in the way.
// Throws PeerError when the name does not resolve, or this process cannot have more.
std::optional<Descriptor> try_to_connect(const std::string& host, uint16_t port, const Deadline& deadline,
                                         std::string& why_not);

struct SocketAddress {
  std::string host;  // numeric; an IPv4 address is written as such, whatever socket it came through
  uint16_t port = 0;
  std::string text() const { return address_text(host, port); }
};
bool is_loopback(const std::string& numeric_host);  // no other machine reaches it
SocketAddress local_address_of(const Descriptor& socket);
SocketAddress peer_address_of(const Descriptor& socket);

// none: it would have to wait. closed: nothing more will come; network_failed() then tells why.
enum class Transfer : uint8_t { some, none, closed };
// After a Transfer::closed, before any other call: whether the network gave up, so that the other end may still run.
bool network_failed();

// Appends what has come, at most `most_bytes`.
inline constexpr size_t kReadBytes = 64 << 10;
Transfer read_some(const Descriptor& socket, std::string& into, size_t most_bytes = kReadBytes);
// Sends of these pieces, one after the other, what the socket takes now: `sent` bytes. REQUIRES: at most 64 pieces.
Transfer write_some(const Descriptor& socket, std::span<const std::string_view> pieces, size_t& sent);

// For a connection whose user has time-outs of its own: no longer ends it when the other host is silent.
void wait_without_limit(const Descriptor& socket);

// Waits until there is something to read (or the other end closed); false when the deadline passed.
bool wait_to_read(const Descriptor& socket, const Deadline& deadline);
// false when the other end closed or took nothing until the deadline.
bool write_all(const Descriptor& socket, std::string_view bytes, const Deadline& deadline);

}  // namespace paceline
