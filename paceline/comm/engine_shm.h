// The shm engine: ranks are processes of one host; buffers live in shared memory (segment_arena.h).
#pragma once

#include <memory>
#include <string>

#include "paceline/comm/group.h"
#include "paceline/comm/store.h"

namespace paceline {

// `job` names the run's files in /dev/shm; `store` is used until this returns. Files of runs that died are removed
// first. Throws FileError when /dev/shm is full, PeerError when a rank does not come.
std::unique_ptr<Group> make_shm_group(GroupIdentity identity, std::shared_ptr<Monitor> monitor, Store& store,
                                      const std::string& job);

}  // namespace paceline
