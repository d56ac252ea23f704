// GlooConnections: the TCP connections of Gloo between all ranks; what groups of the gloo engine share. Only that
// engine includes this.
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/context.h>

#include <exception>
#include <memory>
#include <string>

#include "paceline/comm/group.h"
#include "paceline/comm/store.h"

namespace paceline {

class GlooConnections : public gloo::rendezvous::Context {
 public:
  using gloo::rendezvous::Context::Context;

  // Gloo keeps it for its own; messages are made with it.
  std::shared_ptr<gloo::transport::tcp::Context> transport() const {
    return std::static_pointer_cast<gloo::transport::tcp::Context>(transportContext_);
  }

  // Throws what broke the connection with `peer`, if anything did: Gloo does not tell a message that was half way.
  void require_intact(int peer, gloo::transport::UnboundBuffer& any);
};

// As make_gloo_group.
std::shared_ptr<GlooConnections> connect_with_gloo(const GroupIdentity& identity, Store& store,
                                                   const std::string& address, int64_t timeout_ms);

std::string text_of(const std::exception& error);  // for people, of one that Gloo threw

}  // namespace paceline
