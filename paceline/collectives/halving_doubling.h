// Halving-doubling: 2log₂p α + 2n(p-1)/p β + n(p-1)/p γ; ranks beyond a power of two fold in before and out after.
#pragma once

#include "paceline/collectives/cost_model.h"
#include "paceline/collectives/exchange.h"
#include "paceline/comm/group.h"

namespace paceline {

void halving_doubling_all_reduce(Group& group, TensorView data, ReduceOp op);
// The same as a plan: for who wants to do something else while it is under way.
void plan_halving_doubling(const Group& group, TensorView data, ExchangeSequence& sequence);
Cost halving_doubling_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
