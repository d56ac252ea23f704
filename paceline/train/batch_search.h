// batch.local = "auto": the largest batch that fits into the GPU's memory.
#pragma once

#include <cstdint>
#include <functional>

#include "paceline/comm/group.h"
#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/train/catalog.h"

namespace paceline {

// The largest batch up to `most` for which `fits` holds, given that it holds for all that are smaller; 0: not even for
// 1. To an eighth: what is found is a power of 2, or that and some eighths of it, so at most a ninth more would fit.
int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits);

// The recipe with a number in the place of "auto", the same on every rank: the least of what they found; others as they
// are. `before`, of rank 0, is what a run that goes on has had; 0: `look` for it. Throws RecipeError when one sample is
// too much.
Recipe with_batch_that_fits(Recipe recipe, Group& group, int64_t before, Log* log,
                            const std::function<int64_t()>& look);

// Looks by whole passes of the model on this rank's device beside the memory that an optimizer takes.
Recipe with_batch_that_fits(Recipe recipe, const Catalog& catalog, Group& group, int64_t before, Log* log);

}  // namespace paceline
