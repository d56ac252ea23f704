// Ring all-gather: p-1 steps; each rank sends (p-1)/p of the buffer. The other half of a ring all-reduce.
#pragma once

#include "paceline/comm/group.h"

namespace paceline {

// Every rank's chunk(data, r, size) becomes that of rank r.
void ring_all_gather(Group& group, TensorView data);

}  // namespace paceline
