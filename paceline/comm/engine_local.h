// The local engine: ranks are threads of one process. A single rank is the ordinary one-process run; several serve
// tests and small machines.
#pragma once

#include <functional>
#include <memory>

#include "paceline/comm/group.h"

namespace paceline {

// A group of one rank.
std::unique_ptr<Group> make_local_group();

// Runs `body` on `ranks` threads, each with its group of that size. The first exception of any rank, in rank order, is
// rethrown after all have ended; ranks that wait for the failed one end with a PeerError instead of waiting for ever.
void run_ranks(int ranks, const std::function<void(Group&)>& body);

}  // namespace paceline
