// The local engine: ranks are threads of one process. A single rank is the ordinary one-process run; several serve
// tests, which run in milliseconds, and programs that want their ranks in one address space.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "paceline/comm/group.h"

namespace paceline {

// A group of one rank.
std::unique_ptr<Group> make_local_group();

struct LocalOptions {
  std::optional<Topology> topology;  // pretend that ranks lie on several hosts: these then share no memory
  int64_t timeout_ms = 60'000;
  bool see_all_memory = true;  // false: only allocated buffers, as between processes
};

// Runs `body` on `ranks` threads, each with its group of that size. The first exception of any rank, in rank order, is
// rethrown after all have ended; ranks that wait for the failed one end with a PeerError instead of waiting for ever.
void run_ranks(int ranks, const std::function<void(Group&)>& body);
void run_ranks(int ranks, const LocalOptions& options, const std::function<void(Group&)>& body);

}  // namespace paceline
