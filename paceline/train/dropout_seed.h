// libtorch's dropout draws from its own generator: it is set anew for each step and rank, so that it has no past.
#pragma once

#include <torch/utils.h>

#include "paceline/core/random.h"

namespace paceline {

inline void seed_dropout(uint64_t run_seed, int64_t step, int rank) {
  torch::manual_seed(RandomKey(run_seed).with("dropout").with(step).with(rank).value());
}

}  // namespace paceline
