// Listener: a socket that listens at an endpoint. The path of a unix socket is removed with it.
#pragma once

#include <optional>

#include "paceline/ps/endpoint.h"
#include "paceline/rendezvous/descriptor.h"

namespace paceline {

class Listener {
 public:
  // `at`: what the endpoint's name stands for; nothing for a unix socket, whose path may be that of a socket that a
  // process before this one has left. 0.0.0.0 and [::] take IPv4 and IPv6. Throws PeerError that says what is in the
  // way.
  Listener(const Endpoint& endpoint, const std::optional<ResolvedAddress>& at);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  uint16_t port() const;  // also where 0 was asked for; 0 of a unix socket
  const Descriptor& socket() const { return socket_; }

 private:
  std::string path_;  // of a unix socket
  Descriptor socket_;
};

}  // namespace paceline
