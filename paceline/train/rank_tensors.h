// Tensors that differ from rank to rank (statistics of batch normalisation, what a lossy codec still owes), on their
// way to rank 0, which writes checkpoints, and back. All ranks have the same names and shapes.
#pragma once

#include <vector>

#include "paceline/comm/group.h"
#include "paceline/models/safetensors.h"

namespace paceline {

// Rank 0 gets everyone's, in rank order; the others get nothing. Every rank calls it.
std::vector<NamedTensors> gather_on_first(Group& group, const NamedTensors& mine);

// Copies rank 0's all[r] into rank r's `mine`. Every rank calls it; `all` is rank 0's.
void scatter_from_first(Group& group, const std::vector<NamedTensors>& all, NamedTensors& mine);

// Every rank's `shared` becomes rank 0's. Every rank calls it.
void broadcast_from_first(Group& group, NamedTensors& shared);

// Rank 0's `mine`, on the CPU, whatever the others have: names, shapes and types travel, too. Every rank calls it.
NamedTensors tensors_of_first(Group& group, const NamedTensors& mine);

// What so many ranks owed, as the debts of another number of them: the sum is the same, each owes as much.
std::vector<NamedTensors> spread_evenly(const std::vector<NamedTensors>& owed, int ranks);

}  // namespace paceline
