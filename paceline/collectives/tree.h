// Binomial trees: ⌈log₂p⌉(α + nβ) to sum everything at one rank (and γ for each level), as much to bring it back to
// all. For the few ranks of a host; with many ranks and bytes, reduce-scatter and all-gather send less.
#pragma once

#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

// The root's data becomes the sum over all ranks; the other ranks' is then of no use.
void tree_reduce(Group& group, TensorView data, int root, ReduceOp op);
void tree_broadcast(Group& group, TensorView data, int root);  // every rank's data becomes the root's

Cost tree_reduce_cost(const Cluster& cluster, double bytes);
Cost tree_broadcast_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
