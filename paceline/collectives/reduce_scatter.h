// Ring reduce-scatter: p-1 steps; each rank sends (p-1)/p of the buffer. One half of a ring all-reduce.
#pragma once

#include "paceline/comm/group.h"

namespace paceline {

// Rank r's chunk(data, r, size) becomes the sum over all ranks; the rest of its data is then of no use.
void ring_reduce_scatter(Group& group, TensorView data, ReduceOp op);

}  // namespace paceline
