// Node-aware all-reduce: the fewest bytes over the network and few steps.
// Best on many hosts of several ranks, for medium buffers; for large ones node_aware_pipelined hides the node phase.
#include "paceline/collectives/node_aware.h"

#include "paceline/collectives/halving_doubling.h"

namespace paceline {

std::unique_ptr<Group> split_node(Group& group) {
  CHECK_GT(group.topology().ranks_per_host(), 0);
  return group.split(group.topology().host_of(group.rank()), group.rank());
}

std::unique_ptr<Group> split_network(Group& group, const Group& node) {
  return group.split(node.rank(), group.topology().host_of(group.rank()));
}

NodeAware::NodeAware(Group& group)
    : AllReduce(group), node_(split_node(group)), network_(split_network(group, *node_)), phase_(*node_) {}

void NodeAware::reduce(const TensorView& data, ReduceOp op) {
  phase_.begin(data);
  halving_doubling_all_reduce(*network_, phase_.reduce_scatter({}, op), op);
  phase_.all_gather({});
  phase_.end();
}

Cost network_phase_cost(const Cluster& cluster, double bytes) {
  const int sharing = cluster.ranks_per_host;
  Cost cost = halving_doubling_cost(part_of(cluster, cluster.hosts, 1, sharing), bytes / sharing);
  cost.network_bytes_per_host *= sharing;
  return cost;
}

Cost node_aware_cost(const Cluster& cluster, double bytes) {
  const Cluster node = part_of(cluster, cluster.ranks_per_host, cluster.ranks_per_host, 1);
  return node_phase_cost(node, bytes) + network_phase_cost(cluster, bytes);
}

}  // namespace paceline
