// The mixed engine: ranks of one host talk through shared memory, hosts through another engine.
//
// A message costs what it costs in the engine that carries it. While a rank waits for one of its host, messages of an
// engine without threads of its own (mpi) stand still.
#pragma once

#include <memory>

#include "paceline/comm/group.h"

namespace paceline {

// `host` holds the ranks of this rank's host in the order of their ranks here, `network` all ranks. Both are owned.
// The identity's topology says who is where.
std::unique_ptr<Group> make_mixed_group(GroupIdentity identity, std::unique_ptr<Group> host,
                                        std::unique_ptr<Group> network);

}  // namespace paceline
