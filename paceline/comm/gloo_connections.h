// GlooConnections: TCP connections between all ranks, as Gloo uses them; what groups of the gloo engine share. Only
// that engine includes this.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/tcp/context.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline {

class GlooConnections : public gloo::Context {
 public:
  // As make_gloo_group.
  GlooConnections(const GroupIdentity& identity, const std::string& address, const std::vector<int>& sockets);

  // Gloo keeps it for its own; messages are made with it.
  std::shared_ptr<gloo::transport::tcp::Context> transport() const {
    return std::static_pointer_cast<gloo::transport::tcp::Context>(transportContext_);
  }

  // Throws what broke the connection with `peer`, if anything did: Gloo does not tell a message that was half way.
  void require_intact(int peer, gloo::transport::UnboundBuffer& any);
};

std::string text_of(const std::exception& error);  // for people, of one that Gloo threw

}  // namespace paceline
