// Native: the engine's own all-reduce (MPI_Allreduce, Gloo's). The peer in every benchmark.
#pragma once

#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

// REQUIRES: group.has_native_all_reduce()
inline void native_all_reduce(Group& group, TensorView data, ReduceOp op) { group.native_all_reduce(data, op); }

// A guess: libraries know no hosts but choose by size, so the best of ring, recursive doubling and halving-doubling.
Cost native_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
