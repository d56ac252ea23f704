// Endpoint: where a server listens, as people write it ("node3:4000", "[::1]:4000", "unix:/run/paceline.sock"), and the
// addresses that it stands for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

struct Endpoint {
  std::string host;  // without brackets; empty for a path
  uint16_t port = 0;
  std::string socket_path;  // of unix:PATH

  std::string text(uint16_t with_port) const;  // as it was written, with this port
};

// Throws UsageError for what is neither HOST:PORT nor unix:PATH.
Endpoint parse_endpoint(const std::string& text);

// The two ends of a TCP socket, numeric; an IPv4 address is written as such, whatever socket it came through. Port 0
// where the other end is gone, and of unix sockets.
Endpoint own_end(int socket);
Endpoint other_end(int socket);

struct ResolvedAddress {
  std::string host;  // numeric
  uint16_t port = 0;
  bool ipv6 = false;
  bool local = false;  // 127.0.0.0/8, ::1: nobody but this machine
};

// In the order in which they should be tried. Throws PeerError for a name that does not resolve.
std::vector<ResolvedAddress> resolve(const Endpoint& endpoint);

}  // namespace paceline
