// Hierarchical all-reduce (Jia et al., 2018): reduce within each host to its master, all-reduce among the masters,
// broadcast within: 2⌈log₂L⌉(α + nβ) on the node link, and halving-doubling of the whole buffer among the hosts.
#pragma once

#include <memory>

#include "paceline/collectives/all_reduce.h"

namespace paceline {

class Hierarchical : public AllReduce {
 public:
  explicit Hierarchical(Group& group);

 protected:
  void reduce(const TensorView& data, ReduceOp op) override;

 private:
  std::unique_ptr<Group> node_;     // the ranks of this host; its rank 0 is the master
  std::unique_ptr<Group> masters_;  // null on other ranks
};

Cost hierarchical_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
