// Hierarchical all-reduce: few steps between hosts, and one rank of each uses the network.
// Best for small buffers on many hosts, and where hosts have different numbers of ranks. Its masters send the whole
// buffer: where hosts are equal, node_aware lets every rank send its part.
#include "paceline/collectives/hierarchical.h"

#include "paceline/collectives/halving_doubling.h"
#include "paceline/collectives/tree.h"

namespace paceline {

Hierarchical::Hierarchical(Group& group)
    : AllReduce(group), node_(group.split(group.topology().host_of(group.rank()), group.rank())) {
  const bool is_master = node_->rank() == 0;
  masters_ = group.split(is_master ? 0 : 1, group.rank());
  if (!is_master) masters_.reset();
}

void Hierarchical::reduce(const TensorView& data, ReduceOp op) {
  tree_reduce(*node_, data, 0, op);
  if (masters_) halving_doubling_all_reduce(*masters_, data, op);
  tree_broadcast(*node_, data, 0);
}

Cost hierarchical_cost(const Cluster& cluster, double bytes) {
  const Cluster node = part_of(cluster, cluster.ranks_per_host, cluster.ranks_per_host, 1);
  const Cluster masters = part_of(cluster, cluster.hosts, 1, 1);
  return tree_reduce_cost(node, bytes) + halving_doubling_cost(masters, bytes) + tree_broadcast_cost(node, bytes);
}

}  // namespace paceline
