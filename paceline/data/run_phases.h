// The phases of a run: what its recipe makes of batch, ranks, rate and momentum between two epochs at which it changes
// something, and how many steps that takes. Pure: nothing is opened, nothing is trained.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/recipe.h"

namespace paceline {

struct RunPhase {
  double from = 0, to = 0;         // epochs
  uint64_t batch = 0;              // samples of a step, over all ranks
  int active_ranks = 0;            // that have samples
  uint64_t share = 0;              // samples of one of them, at the most
  double rate = 0, rate_last = 0;  // at `from`, and when `to` is all but reached (at the end of the run: reached)
  double momentum = 0;
  uint64_t steps = 0;

  bool operator==(const RunPhase&) const = default;
};

// In order, without gaps, from epoch 0 to where train.epochs or train.max_steps ends the run. A phase ends with the
// warm-up, and at each milestone of the schedule and of the batch. REQUIRES: ranks > 0, data_size > 0
std::vector<RunPhase> run_phases(const Recipe& recipe, int ranks, uint64_t data_size);

// As many ranks as the recipe has work for: those that batch.fill and batch.fills occupy in the widest phase. 1 where
// it does not say.
int ranks_occupied(const Recipe& recipe, uint64_t data_size);

}  // namespace paceline
