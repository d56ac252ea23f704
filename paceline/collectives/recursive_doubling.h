// Recursive doubling: log₂p (α + nβ + nγ); ranks beyond a power of two fold in before and out after, 2 steps more.
#pragma once

#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

void recursive_doubling_all_reduce(Group& group, TensorView data, ReduceOp op);
Cost recursive_doubling_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
