// The gloo engine: ranks talk over TCP through the Gloo library. For machines without MPI.
//
// A message costs a round trip before its bytes leave, because Gloo asks the receiver first. Gloo's one thread per
// process moves the bytes; a wait sleeps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline {

// `sockets[r]`: a TCP connection with rank r that nobody else uses (the place of this rank is ignored); they are
// duplicated, and the caller closes its own. `address`: of this host, numeric, where the others reach it.
//
// From here on the process ignores SIGPIPE unless it handles it: a connection whose other end died must be an error of
// the operation, not the end of the process.
std::unique_ptr<Group> make_gloo_group(GroupIdentity identity, std::shared_ptr<Monitor> monitor,
                                       const std::string& address, const std::vector<int>& sockets);

}  // namespace paceline
