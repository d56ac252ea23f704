// Node-aware all-reduce on h hosts of L ranks: reduce-scatter within the host, halving-doubling of each chunk across
// the hosts, all-gather within: the node phase of n bytes (direct or ring), and 2log₂h α + 2n(h-1)/h β through the
// host's network link, which its ranks use together.
#pragma once

#include <memory>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/node_phase.h"

namespace paceline {

class NodeAware : public AllReduce {
 public:
  explicit NodeAware(Group& group);  // REQUIRES: as many ranks on every host

 protected:
  void reduce(const TensorView& data, ReduceOp op) override;

 private:
  std::unique_ptr<Group> node_;
  std::unique_ptr<Group> network_;
  NodePhase phase_;
};

// The groups of such algorithms: the ranks of this host, and of each host the one at this rank's place. Every rank of
// the group calls them.
std::unique_ptr<Group> split_node(Group& group);
std::unique_ptr<Group> split_network(Group& group, const Group& node);

Cost node_aware_cost(const Cluster& cluster, double bytes);
// Its second part alone: all chunks across the hosts.
Cost network_phase_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
