// How libtorch computes on a GPU: settings of the whole process.
#pragma once

#include <torch/types.h>

#include "paceline/core/recipe.h"

namespace paceline {

// As train.deterministic says: either only algorithms that give the same bits in every run, or the quickest that a
// trial finds. On the CPU nothing is changed. Before the first computation.
void settle_device(const Recipe& recipe, torch::Device device);

}  // namespace paceline
