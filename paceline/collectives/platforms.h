// The clusters that predictions are made for: `abci`, on which published runs are simulated, and the engines of this
// project with figures of an ordinary machine, for as long as none were measured.
#pragma once

#include <string>
#include <vector>

#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

// "abci": nodes of 4 GPUs, NVLink 100 GB/s and 1 µs, network 25 GB/s per node and 5 µs. "shm", "gloo", "mpi": ranks of
// one machine; with several hosts, 10 Gb/s Ethernet between them. "shm+gloo", "shm+mpi": shared memory within a host.
// `ranks_per_host` 0: the platform's own (abci: 4; else all on one). Throws UsageError with the known names.
Cluster platform(const std::string& name, int ranks, int ranks_per_host = 0);
const std::vector<std::string>& platform_names();

// The platform of the group's engine with the group's ranks and hosts.
Cluster cluster_of(const Group& group);

}  // namespace paceline
