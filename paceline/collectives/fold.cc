#include "paceline/collectives/fold.h"

#include <algorithm>

namespace paceline {

Cost fold_cost(const Cluster& cluster, double bytes) {
  const Fold fold(0, cluster.ranks);
  if (fold.extras == 0) return {};
  const int crossing = cluster.hosts > 1 ? std::min(fold.extras, cluster.ranks_per_host) : 0;
  return {2, bytes, crossing * bytes, 2 * message_seconds(cluster, bytes, crossing) + bytes * cluster.gamma_s_per_byte};
}

int crossing_ranks(const Cluster& cluster, int distance) {
  if (cluster.hosts == 1 || cluster.ranks_per_host % (2 * distance) == 0) return 0;
  return std::min(distance, cluster.ranks_per_host);
}

}  // namespace paceline
