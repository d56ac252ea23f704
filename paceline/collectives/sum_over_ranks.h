// sum_over_ranks: an all-reduce without a plan, for what is summed now and then: metrics, flags, counts.
#pragma once

#include "paceline/comm/group.h"

namespace paceline {

// Every rank's `data` becomes the sum over all ranks: the same bits everywhere. Ring for large buffers; for small ones
// the algorithm with the fewest steps that any group can run.
void sum_over_ranks(Group& group, TensorView data);

}  // namespace paceline
