#include "paceline/comm/device_sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "paceline/core/check.h"

namespace paceline {

int local_rank_of(const Topology& topology, int rank) {
  const std::vector<int>& neighbours = topology.ranks_of(topology.host_of(rank));
  return static_cast<int>(std::ranges::find(neighbours, rank) - neighbours.begin());
}

int device_of_rank(const Topology& topology, int rank, int devices) {
  CHECK_GT(devices, 0);
  return local_rank_of(topology, rank) % devices;
}

bool ranks_share_devices(const Topology& topology, const std::vector<std::string>& device_of_rank) {
  CHECK_EQ(static_cast<int>(device_of_rank.size()), topology.ranks());
  std::set<std::pair<int, std::string>> taken;
  for (int rank = 0; rank < topology.ranks(); ++rank)
    if (!taken.emplace(topology.host_of(rank), device_of_rank[static_cast<size_t>(rank)]).second) return true;
  return false;
}

std::vector<std::pair<std::string, std::string>> environment_for_nccl(const Topology& topology, int world_rank,
                                                                      bool share_devices) {
  std::vector<std::pair<std::string, std::string>> variables;
  const bool one_host = topology.hosts() == 1;  // nobody is further away than the loopback device
  if (one_host) variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  if (!share_devices) return variables;
  variables.emplace_back("NCCL_HOSTID", fmt::format("paceline-rank-{}", world_rank));
  variables.emplace_back("NCCL_NVLS_ENABLE", "0");  // multicast between devices, of which there is one
  variables.emplace_back("NCCL_MNNVL_ENABLE", "0");
  if (one_host) variables.emplace_back("NCCL_IB_DISABLE", "1");
  return variables;
}

}  // namespace paceline
