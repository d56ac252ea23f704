// Ring all-reduce: 2(p-1)α + 2n(p-1)/p β + n(p-1)/p γ.
#pragma once

#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

void ring_all_reduce(Group& group, TensorView data, ReduceOp op);
Cost ring_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
