// The order of hosts: ranks one host after the other, so that the rows of a grid hold whole hosts.
#pragma once

#include <algorithm>

#include "paceline/comm/topology.h"

namespace paceline {

// The rank's place in that order; with consecutive hosts, the rank itself.
inline int place_by_host(const Topology& topology, int rank) {
  const int host = topology.host_of(rank);
  const std::vector<int>& neighbours = topology.ranks_of(host);
  int place = static_cast<int>(std::ranges::find(neighbours, rank) - neighbours.begin());
  for (int earlier = 0; earlier < host; ++earlier) place += static_cast<int>(topology.ranks_of(earlier).size());
  return place;
}

}  // namespace paceline
