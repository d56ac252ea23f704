// The gloo engine: ranks talk over TCP through the Gloo library. For machines without MPI.
//
// Every rank is connected with every other: p(p-1)/2 connections, some 10 ms each to make and to close. A message costs
// a round trip before its bytes leave, because Gloo asks the receiver first. Gloo's one thread per process moves the
// bytes; a wait sleeps.
#pragma once

#include <memory>
#include <string>

#include "paceline/comm/group.h"
#include "paceline/comm/store.h"

namespace paceline {

// Connects every rank with every other. `address`: where this host is reached by the others; `store` is used until this
// returns. Throws PeerError when a rank cannot be reached within the monitor's time-out.
//
// From here on the process ignores SIGPIPE unless it handles it: a connection whose other end died must be an error of
// the operation, not the end of the process.
std::unique_ptr<Group> make_gloo_group(GroupIdentity identity, std::shared_ptr<Monitor> monitor, Store& store,
                                       const std::string& address);

}  // namespace paceline
