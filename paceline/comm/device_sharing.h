// Which CUDA device a rank takes, and what NCCL must be told on one host and where ranks share a device. Pure.
//
// NCCL wants a device for every rank and refuses two on one. Told that each rank is a host of its own, it lets them
// talk over sockets: slow, but every line of a run over several GPUs can be tried out on a machine with one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "paceline/comm/topology.h"

namespace paceline {

// This rank's place among the ranks of its host.
int local_rank_of(const Topology& topology, int rank);

// The ranks of a host take its devices in turn. REQUIRES: devices > 0
int device_of_rank(const Topology& topology, int rank, int devices);

// Whether two ranks of one host have the same device; `device_of_rank` names each rank's, e.g. by its PCI address.
bool ranks_share_devices(const Topology& topology, const std::vector<std::string>& device_of_rank);

// Variables for the process of a rank, to be set before NCCL is first called, where the user has not set them. On one
// host NCCL listens on loopback alone. `share_devices`: as ranks_share_devices() says; `world_rank` then makes the
// host's name the rank's own. REQUIRES: the topology is that of all ranks with which the process will use NCCL
std::vector<std::pair<std::string, std::string>> environment_for_nccl(const Topology& topology, int world_rank,
                                                                      bool share_devices);

}  // namespace paceline
