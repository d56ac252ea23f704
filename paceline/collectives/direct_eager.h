// Eager direct all-reduce through shared memory: 1 meeting, npβ + n(p-1)γ.
#pragma once

#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

void direct_eager_all_reduce(Group& group, TensorView data, ReduceOp op);  // REQUIRES: group.shared_memory()
Cost direct_eager_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
